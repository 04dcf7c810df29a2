// One device: what is known of it, its shadow, and commands with what came of them.
import { useState } from 'react'
import { ApiError, change, get, part } from '../api'
import { DEVICES_TOPIC } from '../devices'
import { duration, readJson, time } from '../format'
import { Loaded, useLoad } from '../loading'
import type { Command, KnownDevice, Shadow } from '../model'
import { Badge, Card, Empty, Field, Form, Page, Table } from '../parts'
import { link } from '../router'

export function DevicePage({ id }: { id: string }) {
  const device = useLoad((signal) => get<KnownDevice>(`v1/devices/${part(id)}`, signal), id, 4000)
  return (
    <Page above={<a href="#/devices">Devices</a>} title={id} actions={<a href={link(['topics', DEVICES_TOPIC], { filter: `key="${id}"` })}>Its messages</a>}>
      <Loaded from={device} what="this device">
        {(data) => (
          <>
            <About device={data} />
            <ShadowCard id={id} />
            <Commands id={id} />
          </>
        )}
      </Loaded>
    </Page>
  )
}

function About({ device }: { device: KnownDevice }) {
  const tags = Object.entries(device.tags)
  return (
    <Card title="What is known" actions={<Badge tone={device.is_connected ? 'good' : 'warn'}>{device.is_connected ? 'connected' : 'not connected'}</Badge>}>
      <p>
        Model {device.model || 'unknown'}, known since {time(device.registered_ms)}, last heard {device.seen_ms === 0 ? 'never' : `${duration(Date.now() - device.seen_ms)} ago`}
        {device.status && `, says: ${device.status}`}
      </p>
      {tags.length > 0 && (
        <p>
          {tags.map(([name, value]) => (
            <Badge key={name}>
              {name} {value}
            </Badge>
          ))}
        </p>
      )}
    </Card>
  )
}

async function loadShadow(id: string, signal: AbortSignal): Promise<Shadow | null> {
  try {
    return await get<Shadow>(`v1/devices/${part(id)}/shadow`, signal)
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null
    throw error
  }
}

function ShadowCard({ id }: { id: string }) {
  const shadow = useLoad((signal) => loadShadow(id, signal), `shadow ${id}`, 3000)
  const [wish, setWish] = useState('')
  async function save(): Promise<void> {
    const desired = readJson(wish)
    if (typeof desired !== 'object' || desired === null) throw new Error('Write a JSON object, such as {"target": 21}.')
    await change('PATCH', `v1/devices/${part(id)}/shadow`, { state: { desired }, ...(shadow.data ? { version: shadow.data.version } : {}) })
    setWish('')
    shadow.reload()
  }
  return (
    <Card title="Shadow" actions={shadow.data && <Badge>version {shadow.data.version}</Badge>}>
      <Loaded from={shadow} what="the shadow">
        {(data) =>
          data === null ? (
            <p className="dim">It has none yet: the first wish makes one.</p>
          ) : (
            <div className="grid">
              {(['desired', 'reported', 'delta'] as const).map((side) => (
                <div key={side}>
                  <h3>{side}</h3>
                  <pre tabIndex={0} aria-label={side}>
                    {JSON.stringify(data.state[side], null, 2)}
                  </pre>
                </div>
              ))}
            </div>
          )
        }
      </Loaded>
      <Form submit="Wish for it" onSubmit={save}>
        <Field label="Wished for" hint="Fields to change; null deletes one. Refused if somebody else has changed the shadow meanwhile.">
          {(field) => <textarea id={field} required placeholder='{"target": 21}' value={wish} onChange={(event) => setWish(event.target.value)} />}
        </Field>
      </Form>
    </Card>
  )
}

function tone(state: string): 'good' | 'bad' | 'warn' {
  if (state === 'succeeded') return 'good'
  return /failed|expired|cancelled/.test(state) ? 'bad' : 'warn'
}

function Commands({ id }: { id: string }) {
  const path = `v1/devices/${part(id)}/commands`
  const commands = useLoad((signal) => get<{ commands: Command[] }>(path, signal), path, 2000)
  const [name, setName] = useState('')
  const [parameters, setParameters] = useState('')
  async function issue(): Promise<void> {
    const given = parameters === '' ? null : readJson(parameters)
    if (given === undefined) throw new Error('The parameters are no JSON.')
    await change('POST', path, { name, parameters: given })
    commands.reload()
  }
  return (
    <Card title="Commands">
      <Loaded from={commands} what="commands">
        {({ commands: all }) =>
          all.length === 0 ? (
            <Empty title="No commands lately" />
          ) : (
            <Table label="Commands" columns={['Time', 'Command', 'State', 'By', 'Answer', '']}>
              {[...all].reverse().map((command) => (
                <tr key={command.id}>
                  <td className="nowrap">{time(command.issued_ms)}</td>
                  <td>
                    {command.name} <small className="mono">{command.parameters === null ? '' : JSON.stringify(command.parameters)}</small>
                  </td>
                  <td>
                    <Badge tone={tone(command.state)}>{command.state}</Badge>
                  </td>
                  <td>{command.issued_by}</td>
                  <td className="mono">{command.reason || (command.result === null ? '' : JSON.stringify(command.result))}</td>
                  <td>
                    {tone(command.state) === 'warn' && (
                      <Form
                        submit="Cancel"
                        tone="quiet"
                        onSubmit={async () => {
                          await change('DELETE', `${path}/${part(command.id)}`)
                          commands.reload()
                        }}
                      >
                        {null}
                      </Form>
                    )}
                  </td>
                </tr>
              ))}
            </Table>
          )
        }
      </Loaded>
      <Form submit="Send command" onSubmit={issue}>
        <div className="row">
          <Field label="Command">{(field) => <input id={field} required placeholder="reboot" value={name} onChange={(event) => setName(event.target.value)} />}</Field>
          <div className="field wide">
            <Field label="Parameters (JSON)">{(field) => <input id={field} placeholder="none" value={parameters} onChange={(event) => setParameters(event.target.value)} />}</Field>
          </div>
        </div>
      </Form>
    </Card>
  )
}
