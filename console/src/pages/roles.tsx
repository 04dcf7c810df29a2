// Roles: what each allows, who has it, and new ones.
import { useState } from 'react'
import { change, get, part } from '../api'
import { Loaded, useLoad } from '../loading'
import type { Role } from '../model'
import { Card, Field, Form } from '../parts'
import { KINDS, OPERATIONS } from './rules'

type Permission = Role['permissions'][number]

export function Roles() {
  const roles = useLoad((signal) => get<{ roles: Role[] }>('v1/roles', signal), 'roles')
  return (
    <Loaded from={roles} what="roles">
      {({ roles: all }) => (
        <>
          <div className="grid">
            {all.map((role) => (
              <RoleCard key={role.name} role={role} onChange={roles.reload} />
            ))}
          </div>
          <SaveRole known={all} onDone={roles.reload} />
        </>
      )}
    </Loaded>
  )
}

function RoleCard({ role, onChange }: { role: Role; onChange: () => void }) {
  const [member, setMember] = useState('')
  const path = (who: string): string => `v1/roles/${part(role.name)}/members/${part(who)}`
  return (
    <Card title={role.name}>
      <p className="dim">{role.permissions.map((one) => `${one.operation} ${one.kind} ${one.match === 'prefixed' ? `${one.name}*` : one.name}`).join(' · ') || 'allows nothing'}</p>
      {role.members.map((who) => (
        <div key={who} className="row">
          <code>{who}</code>
          <Form
            submit={`Take ${role.name} from ${who}`}
            tone="quiet"
            onSubmit={async () => {
              await change('DELETE', path(who))
              onChange()
            }}
          >
            {null}
          </Form>
        </div>
      ))}
      <Form
        submit="Give role"
        tone=""
        onSubmit={async () => {
          await change('PUT', path(/^(User|Group):/.test(member) ? member : `User:${member}`))
          setMember('')
          onChange()
        }}
      >
        <Field label="User, or Group:name">{(id) => <input id={id} required value={member} onChange={(event) => setMember(event.target.value)} />}</Field>
      </Form>
    </Card>
  )
}

/** Add a permission to a role, which is made if there is none of this name. */
function SaveRole({ known, onDone }: { known: Role[]; onDone: () => void }) {
  const [name, setName] = useState('')
  const [permission, setPermission] = useState<Permission>({ kind: 'topic', name: '', match: 'literal', operation: 'read' })
  const select = (field: keyof Permission, options: string[]) => (id: string) => (
    <select id={id} value={permission[field]} onChange={(event) => setPermission({ ...permission, [field]: event.target.value })}>
      {options.map((one) => (
        <option key={one}>{one}</option>
      ))}
    </select>
  )
  async function save(): Promise<void> {
    const before = known.find((role) => role.name === name)
    const added = permission.kind === 'cluster' ? { ...permission, name: 'kafka-cluster', match: 'literal' } : permission
    await change('PUT', `v1/roles/${part(name)}`, { permissions: [...(before?.permissions ?? []), added], members: before?.members ?? [] })
    onDone()
  }
  return (
    <Card title="Let a role do more, or make one">
      <Form submit="Save role" onSubmit={save}>
        <div className="row">
          <Field label="Role">{(id) => <input id={id} required placeholder="dispatcher" value={name} onChange={(event) => setName(event.target.value)} />}</Field>
          <Field label="May">{select('operation', OPERATIONS)}</Field>
          <Field label="What">{select('kind', KINDS)}</Field>
          {permission.kind !== 'cluster' && (
            <>
              <Field label="Name (* for all)">{(id) => <input id={id} required value={permission.name} onChange={(event) => setPermission({ ...permission, name: event.target.value })} />}</Field>
              <Field label="Match">{select('match', ['literal', 'prefixed'])}</Field>
            </>
          )}
        </div>
      </Form>
    </Card>
  )
}
