// Who may come in and do what: users, roles, rules with their reasons, quotas, the audit trail.
import { useState } from 'react'
import { ApiError, change, get, part } from '../api'
import { readJson, time } from '../format'
import { Loaded, useLoad } from '../loading'
import type { Quota, StoredRecord, User } from '../model'
import { Badge, Card, DeleteDialog, Dialog, Empty, Field, Form, Page, Table, Tabs } from '../parts'
import { readNewest } from '../records'
import type { Place } from '../router'
import { Roles } from './roles'
import { Rules } from './rules'
import { Tokens } from './tokens'

const TABS = { users: 'Users', roles: 'Roles', rules: 'Rules', quotas: 'Quotas', audit: 'Audit trail' }

export function Security({ place }: { place: Place }) {
  const tab = place.query.get('tab') ?? 'users'
  return (
    <Page title="Security">
      <Tabs tabs={TABS} place={place} chosen={tab} />
      {tab === 'users' && <Users />}
      {tab === 'roles' && <Roles />}
      {tab === 'rules' && <Rules />}
      {tab === 'quotas' && <Quotas />}
      {tab === 'audit' && <Audit />}
    </Page>
  )
}

function Users() {
  const users = useLoad((signal) => get<{ users: User[] }>('v1/users', signal), 'users')
  const [isAdding, setIsAdding] = useState(false)
  const [deleted, setDeleted] = useState('')
  const [tokensOf, setTokensOf] = useState('')
  return (
    <Loaded from={users} what="users">
      {({ users: all }) => (
        <Card
          title={`${all.length} users`}
          actions={
            <button className="primary" onClick={() => setIsAdding(true)}>
              Add user
            </button>
          }
        >
          {all.length === 0 ? (
            <Empty title="No users">
              <p>Nobody has to log in, and the node listens on this machine only. Add an administrator, then set auth.mechanisms.</p>
            </Empty>
          ) : (
            <Table label="Users" columns={['Name', 'Rights', 'Can log in by', '#Tokens', '']}>
              {all.map((user) => (
                <tr key={user.name}>
                  <td>{user.name}</td>
                  <td>{user.admin ? <Badge tone="warn">administrator</Badge> : <span className="dim">rules and roles</span>}</td>
                  <td>{user.mechanisms.join(', ')}</td>
                  <td className="number">{user.tokens}</td>
                  <td className="nowrap">
                    <button className="quiet" aria-label={`Tokens of ${user.name}`} onClick={() => setTokensOf(user.name)}>
                      Tokens
                    </button>
                    <button className="quiet" aria-label={`Delete ${user.name}`} onClick={() => setDeleted(user.name)}>
                      Delete
                    </button>
                  </td>
                </tr>
              ))}
            </Table>
          )}
          {isAdding && (
            <AddUser
              onClose={() => {
                setIsAdding(false)
                users.reload()
              }}
            />
          )}
          {tokensOf && (
            <Tokens
              user={tokensOf}
              onClose={() => {
                setTokensOf('')
                users.reload()
              }}
            />
          )}
          {deleted && (
            <DeleteDialog
              kind="user"
              name={deleted}
              consequence="The user's tokens go too, and its connections end at once."
              onClose={() => setDeleted('')}
              onDelete={async () => {
                await change('DELETE', `v1/users/${part(deleted)}`)
                setDeleted('')
                users.reload()
              }}
            />
          )}
        </Card>
      )}
    </Loaded>
  )
}

function AddUser({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState('')
  const [password, setPassword] = useState('')
  const [isAdmin, setIsAdmin] = useState(false)
  return (
    <Dialog title="Add user" onClose={onClose}>
      <Form
        submit="Add user"
        onSubmit={async () => {
          await change('POST', 'v1/users', { name, ...(password && { password }), admin: isAdmin })
          onClose()
        }}
      >
        <Field label="Name">{(id) => <input id={id} required autoFocus autoComplete="off" value={name} onChange={(event) => setName(event.target.value)} />}</Field>
        <Field label="Password" hint="Without one the user logs in with tokens only.">
          {(id) => <input id={id} type="password" autoComplete="new-password" value={password} onChange={(event) => setPassword(event.target.value)} />}
        </Field>
        <label>
          <input type="checkbox" checked={isAdmin} onChange={(event) => setIsAdmin(event.target.checked)} /> administrator: may do everything
        </label>
      </Form>
    </Dialog>
  )
}

function Quotas() {
  const quotas = useLoad((signal) => get<{ quotas: Quota[] }>('v1/quotas', signal), 'quotas')
  return (
    <Loaded from={quotas} what="quotas">
      {({ quotas: all }) => (
        <>
          <QuotaList all={all} />
          <SetQuota onDone={quotas.reload} />
        </>
      )}
    </Loaded>
  )
}

function QuotaList({ all }: { all: Quota[] }) {
  if (all.length === 0)
    return (
      <Empty title="No quotas">
        <p>Everybody may ask for as much as the node can give.</p>
      </Empty>
    )
  return (
    <Card title="Quotas">
      <Table label="Quotas" columns={['User', 'Client', 'Address', 'Limits']}>
        {all.map((quota, index) => (
          <tr key={index}>
            <td>{quota.user}</td>
            <td>{quota.client}</td>
            <td>{quota.ip}</td>
            <td>
              {Object.entries(quota.limits)
                .map(([name, value]) => `${name} ${value}`)
                .join(', ')}
            </td>
          </tr>
        ))}
      </Table>
    </Card>
  )
}

const LIMITS: Record<string, string> = {
  producer_byte_rate: 'bytes sent a second',
  consumer_byte_rate: 'bytes received a second',
  request_percentage: "percent of the node's time",
  controller_mutation_rate: 'partitions made or deleted a second',
  connection_creation_rate: 'connections a second (of an address)',
}

function SetQuota({ onDone }: { onDone: () => void }) {
  const [who, setWho] = useState({ user: '', client: '', ip: '' })
  const [limit, setLimit] = useState(Object.keys(LIMITS)[0] ?? '')
  const [value, setValue] = useState('')
  return (
    <Card title="Set a quota">
      <Form
        submit="Set quota"
        onSubmit={async () => {
          await change('PUT', 'v1/quotas', { ...who, limits: { [limit]: value === '' ? null : Number(value) } })
          onDone()
        }}
      >
        <div className="row">
          {(['user', 'client', 'ip'] as const).map((one) => (
            <Field key={one} label={{ user: 'User', client: 'Client id', ip: 'Address' }[one]}>
              {(id) => <input id={id} placeholder="any" value={who[one]} onChange={(event) => setWho({ ...who, [one]: event.target.value })} />}
            </Field>
          ))}
          <Field label="Limit">
            {(id) => (
              <select id={id} value={limit} onChange={(event) => setLimit(event.target.value)}>
                {Object.entries(LIMITS).map(([name, title]) => (
                  <option key={name} value={name}>
                    {title}
                  </option>
                ))}
              </select>
            )}
          </Field>
          <Field label="At most (empty removes it)">{(id) => <input id={id} type="number" min={0} step="any" value={value} onChange={(event) => setValue(event.target.value)} />}</Field>
        </div>
        <small>&lt;default&gt; stands for whoever has no quota of its own.</small>
      </Form>
    </Card>
  )
}

interface AuditEvent {
  seq: number
  ts: number
  who: string
  host: string
  act: string
  obj: string
  result: string
}

async function loadAudit(signal: AbortSignal): Promise<AuditEvent[]> {
  let records: StoredRecord[]
  try {
    records = await readNewest('__audit', 300, signal)
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return []
    throw error
  }
  return records.map((record) => readJson(record.value) as AuditEvent).filter((event) => event && event.act !== 'head').reverse()
}

function Audit() {
  const events = useLoad(loadAudit, 'audit', 5000)
  const [search, setSearch] = useState('')
  return (
    <Loaded from={events} what="the audit trail">
      {(all) =>
        all.length === 0 ? (
          <Empty title="The audit trail is empty">
            <p>A node where clients log in writes down who did what. <code>audit.enabled=on</code> has it written in any case.</p>
          </Empty>
        ) : (
          <Card title="Who did what" actions={<input type="search" aria-label="Search the trail" placeholder="Search ( / )" value={search} onChange={(event) => setSearch(event.target.value)} />}>
            <Table label="Audit trail" columns={['Time', 'Who', 'From', 'What', 'To what', 'Result']}>
              {all
                .filter((event) => JSON.stringify(event).includes(search))
                .map((event) => (
                  <tr key={event.seq}>
                    <td className="nowrap">{time(event.ts)}</td>
                    <td>{event.who}</td>
                    <td>{event.host}</td>
                    <td>{event.act}</td>
                    <td className="cut">{event.obj}</td>
                    <td>
                      <Badge tone={event.result === 'ok' ? 'good' : 'bad'}>{event.result}</Badge>
                    </td>
                  </tr>
                ))}
            </Table>
            <p className="dim">
              The records are chained and signed: <code>chordmq audit verify</code> proves that none is missing.
            </p>
          </Card>
        )
      }
    </Loaded>
  )
}
