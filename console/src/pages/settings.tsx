// How to connect, what the node says of itself, and how much it logs.
import { useState } from 'react'
import { change, get, whoAmI } from '../api'
import { duration } from '../format'
import { Loaded, useLoad } from '../loading'
import type { Info } from '../model'
import { Card, Field, Form, Page, Snippets } from '../parts'
import { addresses, connect } from '../snippets'

interface Levels {
  levels: Record<string, string>
  modules: string[]
}

const LEVELS = ['debug', 'info', 'warning', 'error', 'critical']

export function Settings() {
  const info = useLoad((signal) => get<Info>('v1/info', signal), 'info')
  return (
    <Page title="Settings and connections">
      <Loaded from={info} what="the node">
        {(data) => (
          <>
            <Card title="Connect from your language">
              <Snippets of={connect(addresses(data, location.origin, whoAmI() !== null))} />
            </Card>
            <Card title="This node">
              <table>
                <tbody>
                  {Object.entries(data).map(([name, value]) => (
                    <tr key={name}>
                      <th scope="row">{name.replaceAll('_', ' ')}</th>
                      <td className="mono">{name === 'uptime_ms' ? duration(Number(value)) : String(value)}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
              <p className="dim">
                Settings of the node are in its YAML file, its environment or on its command line; those of a topic are on the topic's page. Everything here is also in the <a href="docs">HTTP API</a>.
              </p>
            </Card>
          </>
        )}
      </Loaded>
      <LogLevels />
    </Page>
  )
}

function LogLevels() {
  const levels = useLoad((signal) => get<Levels>('v1/log-levels', signal), 'levels')
  const [module, setModule] = useState('root')
  const [level, setLevel] = useState('info')
  return (
    <Card title="What the node logs">
      <Loaded from={levels} what="log levels">
        {(data) => (
          <>
            <p>
              {Object.entries(data.levels)
                .map(([name, value]) => `${name}: ${value}`)
                .join(', ')}
            </p>
            <Form
              submit="Set level"
              tone=""
              onSubmit={async () => {
                await change('PUT', 'v1/log-levels', { [module]: level === '' ? null : level })
                levels.reload()
              }}
            >
              <div className="row">
                <Field label="Part">
                  {(id) => (
                    <select id={id} value={module} onChange={(event) => setModule(event.target.value)}>
                      {data.modules.map((one) => (
                        <option key={one}>{one}</option>
                      ))}
                    </select>
                  )}
                </Field>
                <Field label="Level">
                  {(id) => (
                    <select id={id} value={level} onChange={(event) => setLevel(event.target.value)}>
                      {LEVELS.map((one) => (
                        <option key={one}>{one}</option>
                      ))}
                      <option value="">as the part above it</option>
                    </select>
                  )}
                </Field>
              </div>
            </Form>
          </>
        )}
      </Loaded>
    </Card>
  )
}
