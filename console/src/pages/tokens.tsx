// The tokens of one user; a new one is shown once.
import { useState } from 'react'
import { change, get, part } from '../api'
import { time } from '../format'
import { Loaded, useLoad } from '../loading'
import type { Token } from '../model'
import { Copy, Dialog, Field, Form, Table } from '../parts'

export function Tokens({ user, onClose }: { user: string; onClose: () => void }) {
  const path = `v1/users/${part(user)}/tokens`
  const tokens = useLoad((signal) => get<{ tokens: Token[] }>(path, signal), path)
  const [label, setLabel] = useState('')
  const [days, setDays] = useState('')
  const [made, setMade] = useState('')
  async function add(): Promise<void> {
    const token = await change<Token>('POST', path, { label, ...(days && { lifetime_s: Number(days) * 86400 }) })
    setMade(token.token ?? '')
    tokens.reload()
  }
  return (
    <Dialog title={`Tokens of ${user}`} onClose={onClose}>
      <Loaded from={tokens} what="tokens">
        {({ tokens: all }) => (
          <Table label="Tokens" columns={['Label', 'Made', 'Ends', '']}>
            {all.map((token) => (
              <tr key={token.id}>
                <td>{token.label || token.id}</td>
                <td>{time(token.created_ms)}</td>
                <td>{token.expires_ms === null ? 'never' : time(token.expires_ms)}</td>
                <td>
                  <Form
                    submit="Revoke"
                    tone="quiet"
                    onSubmit={async () => {
                      await change('DELETE', `${path}/${part(token.id)}`)
                      tokens.reload()
                    }}
                  >
                    {null}
                  </Form>
                </td>
              </tr>
            ))}
          </Table>
        )}
      </Loaded>
      {made && (
        <p className="notice" role="status">
          Shown this once: <code>{made}</code> <Copy text={made} />
        </p>
      )}
      <Form submit="Make token" tone="" onSubmit={add}>
        <div className="row">
          <Field label="Label">{(id) => <input id={id} value={label} onChange={(event) => setLabel(event.target.value)} />}</Field>
          <Field label="Days until it ends">{(id) => <input id={id} type="number" min={1} placeholder="never" value={days} onChange={(event) => setDays(event.target.value)} />}</Field>
        </div>
      </Form>
    </Dialog>
  )
}
