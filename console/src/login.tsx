// The login: a name and a password, or a token; kept until the tab is closed.
import { useState } from 'react'
import { ApiError, get, keep, withPassword, withToken } from './api'
import { Card, Field, Form } from './parts'

export function Login({ onDone }: { onDone: () => void }) {
  const [way, setWay] = useState<'password' | 'token'>('password')
  const [name, setName] = useState('')
  const [secret, setSecret] = useState('')
  async function logIn(): Promise<void> {
    keep(way === 'password' ? withPassword(name, secret) : withToken(secret))
    try {
      await get('v1/info')
    } catch (error) {
      if (error instanceof ApiError && error.status !== 401) throw error
      keep(null)
      throw new Error('The node does not know this login.')
    }
    onDone()
  }
  return (
    <main className="gate">
      <h1>ChordMQ</h1>
      <Card title="Log in to ChordMQ">
        <div className="actions">
          {(['password', 'token'] as const).map((one) => (
            <button key={one} aria-pressed={one === way} onClick={() => setWay(one)}>
              With a {one}
            </button>
          ))}
        </div>
        <Form submit="Log in" onSubmit={logIn}>
          {way === 'password' && <Field label="Name">{(id) => <input id={id} required autoFocus autoComplete="username" value={name} onChange={(event) => setName(event.target.value)} />}</Field>}
          <Field label={way === 'password' ? 'Password' : 'Token'}>
            {(id) => <input id={id} required type="password" autoComplete={way === 'password' ? 'current-password' : 'off'} value={secret} onChange={(event) => setSecret(event.target.value)} />}
          </Field>
        </Form>
        <small>Kept in this tab only, and forgotten when it is closed.</small>
      </Card>
    </main>
  )
}
