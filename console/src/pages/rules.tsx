// Access rules: the list, a new one, and a matrix that says why.
import { useState } from 'react'
import { change, get, part } from '../api'
import { Loaded, useLoad } from '../loading'
import type { Decision, Rule, TopicRow, User } from '../model'
import { Badge, Card, Empty, Field, Form, Table } from '../parts'

export const KINDS = ['topic', 'group', 'cluster', 'transactional-id', 'delegation-token', 'user']
export const OPERATIONS = ['all', 'read', 'write', 'create', 'delete', 'alter', 'describe', 'cluster-action', 'describe-configs', 'alter-configs', 'idempotent-write']
const ASKED = ['describe', 'read', 'write', 'create', 'delete', 'alter', 'describe-configs', 'alter-configs']
const PRINCIPALS_MAX = 30

export function Rules() {
  const rules = useLoad((signal) => get<{ acls: Rule[] }>('v1/acls', signal), 'acls')
  return (
    <Loaded from={rules} what="rules">
      {({ acls }) => (
        <>
          <Matrix acls={acls} />
          <Card title="Rules">
            {acls.length === 0 ? (
              <Empty title="No rules">
                <p>Nothing is allowed that no rule or role allows, as soon as clients log in. Administrators may do everything.</p>
              </Empty>
            ) : (
              <List acls={acls} onChange={rules.reload} />
            )}
          </Card>
          <AddRule onDone={rules.reload} />
        </>
      )}
    </Loaded>
  )
}

function List({ acls, onChange }: { acls: Rule[]; onChange: () => void }) {
  return (
    <Table label="Rules" columns={['Effect', 'Who', 'May', 'What', 'From', 'Role', '']}>
      {acls.map((rule, index) => (
        <tr key={index}>
          <td>
            <Badge tone={rule.effect === 'deny' ? 'bad' : 'good'}>{rule.effect}</Badge>
          </td>
          <td>{rule.principal}</td>
          <td>{rule.operation}</td>
          <td>
            {rule.kind} <code>{rule.match === 'prefixed' ? `${rule.name}*` : rule.name}</code>
          </td>
          <td>{rule.host === '*' ? 'everywhere' : rule.host}</td>
          <td>{rule.role}</td>
          <td>
            {rule.role === '' && (
              <Form
                submit="Remove"
                tone="quiet"
                onSubmit={async () => {
                  const { role: _, ...fields } = rule
                  await change('DELETE', `v1/acls?${new URLSearchParams(fields)}`)
                  onChange()
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

function AddRule({ onDone }: { onDone: () => void }) {
  const [rule, setRule] = useState({ effect: 'allow', principal: '', operation: 'read', kind: 'topic', name: '', match: 'literal' })
  const select = (name: keyof typeof rule, options: string[]) => (id: string) => (
    <select id={id} value={rule[name]} onChange={(event) => setRule({ ...rule, [name]: event.target.value })}>
      {options.map((one) => (
        <option key={one}>{one}</option>
      ))}
    </select>
  )
  async function add(): Promise<void> {
    const principal = /^(User|Group):/.test(rule.principal) ? rule.principal : `User:${rule.principal}`
    const name = rule.kind === 'cluster' ? 'kafka-cluster' : rule.name
    await change('POST', 'v1/acls', { acls: [{ ...rule, principal, name }] })
    onDone()
  }
  return (
    <Card title="Add a rule">
      <Form submit="Add rule" onSubmit={add}>
        <div className="row">
          <Field label="Effect">{select('effect', ['allow', 'deny'])}</Field>
          <Field label="Who">{(id) => <input id={id} required placeholder="alice" value={rule.principal} onChange={(event) => setRule({ ...rule, principal: event.target.value })} />}</Field>
          <Field label="May">{select('operation', OPERATIONS)}</Field>
          <Field label="What">{select('kind', KINDS)}</Field>
          {rule.kind !== 'cluster' && (
            <>
              <Field label="Name (* for all)">{(id) => <input id={id} required value={rule.name} onChange={(event) => setRule({ ...rule, name: event.target.value })} />}</Field>
              <Field label="Match">{select('match', ['literal', 'prefixed'])}</Field>
            </>
          )}
        </div>
      </Form>
    </Card>
  )
}

async function principals(acls: Rule[], signal: AbortSignal): Promise<string[]> {
  const users = await get<{ users: User[] }>('v1/users', signal).catch(() => ({ users: [] }))
  const named = [...users.users.map((user) => `User:${user.name}`), ...acls.map((rule) => rule.principal).filter((one) => one.startsWith('User:') && one !== 'User:*')]
  return [...new Set(named)].slice(0, PRINCIPALS_MAX)
}

/** Who may do what with one resource; each cell knows its reason. */
function Matrix({ acls }: { acls: Rule[] }) {
  const topics = useLoad((signal) => get<{ topics: TopicRow[] }>('v1/topics', signal), 'matrix topics')
  const [typed, setTyped] = useState('')
  const [reason, setReason] = useState('')
  const names = topics.data?.topics.filter((topic) => !topic.internal).map((topic) => `topic:${topic.name}`) ?? []
  const resource = typed || names[0] || 'cluster'
  const matrix = useLoad((signal) => ask(resource, acls, signal), `${resource} ${acls.length}`)
  return (
    <Card title="Who may do what, and why">
      <Field label="With" hint="topic:name, group:name or cluster">
        {(id) => (
          <>
            <input id={id} list={`${id}-names`} placeholder={resource} value={typed} onChange={(event) => setTyped(event.target.value)} />
            <datalist id={`${id}-names`}>
              {['cluster', ...names].map((name) => (
                <option key={name} value={name} />
              ))}
            </datalist>
          </>
        )}
      </Field>
      <Loaded from={matrix} what="decisions">
        {(rows) =>
          rows.length === 0 ? (
            <p className="dim">No users yet, and no rules that name one.</p>
          ) : (
            <div className="matrix">
              <Table label="Access matrix" columns={['', ...ASKED]}>
                {rows.map(({ principal, decisions }) => (
                  <tr key={principal}>
                    <td>{principal}</td>
                    {decisions.map((decision, index) => (
                      <td key={ASKED[index]}>
                        <button
                          className={decision.is_allowed ? 'yes' : 'no'}
                          aria-label={`${principal} ${ASKED[index]}: ${decision.is_allowed ? 'allowed' : 'denied'}`}
                          title={decision.reason}
                          onClick={() => setReason(`${principal} ${decision.is_allowed ? 'may' : 'may not'} ${ASKED[index]} ${resource}: ${decision.reason}.`)}
                        >
                          {decision.is_allowed ? '✓' : '✕'}
                        </button>
                      </td>
                    ))}
                  </tr>
                ))}
              </Table>
            </div>
          )
        }
      </Loaded>
      {reason && (
        <p className="notice" role="status">
          {reason}
        </p>
      )}
    </Card>
  )
}

async function ask(resource: string, acls: Rule[], signal: AbortSignal): Promise<{ principal: string; decisions: Decision[] }[]> {
  const who = await principals(acls, signal)
  return Promise.all(
    who.map(async (principal) => ({
      principal,
      decisions: await Promise.all(ASKED.map((operation) => get<Decision>(`v1/why?principal=${part(principal)}&operation=${operation}&resource=${part(resource)}`, signal))),
    })),
  )
}
