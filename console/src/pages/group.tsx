// One group: its consumers, its lag now and over time, and moving its offsets after a preview.
import { useEffect, useState } from 'react'
import { change, get, part } from '../api'
import { count } from '../format'
import { Loaded, useLoad } from '../loading'
import type { GroupDetail, Lag, Moved } from '../model'
import { Badge, Card, DeleteDialog, Empty, Field, Form, Page, Sparkline, Table } from '../parts'
import { go, link } from '../router'
import { tone } from './groups'

const POINTS_MAX = 120

async function load(name: string, signal: AbortSignal): Promise<{ group: GroupDetail; lag: Lag }> {
  const [group, lag] = await Promise.all([get<GroupDetail>(`v1/groups/${part(name)}`, signal), get<Lag>(`v1/groups/${part(name)}/lag`, signal)])
  return { group, lag }
}

export function Group({ name }: { name: string }) {
  const loaded = useLoad((signal) => load(name, signal), name, 3000)
  const [history, setHistory] = useState<number[]>([])
  const [isDeleting, setIsDeleting] = useState(false)
  useEffect(() => {
    if (loaded.data) setHistory((before) => [...before, loaded.data?.lag.total_lag ?? 0].slice(-POINTS_MAX))
  }, [loaded.data])
  return (
    <Page above={<a href="#/groups">Groups</a>} title={name} actions={loaded.data && <button onClick={() => setIsDeleting(true)}>Delete</button>}>
      <Loaded from={loaded} what="this group">
        {({ group, lag }) => (
          <>
            <div className="grid">
              <Card title="State" actions={<Badge tone={tone(group.state)}>{group.state}</Badge>}>
                <p>
                  {group.members.length} consumers{group.assignor && `, partitions by ${group.assignor}`}
                </p>
              </Card>
              <Card title={`Lag ${count(lag.total_lag)}`}>
                <Sparkline values={history} label="Lag since this page was opened" width={300} height={48} />
              </Card>
            </div>
            <LagTable lag={lag} />
            <Members group={group} />
            <Move name={name} lag={lag} onMoved={loaded.reload} isInUse={group.members.length > 0} />
          </>
        )}
      </Loaded>
      {isDeleting && (
        <DeleteDialog
          kind="group"
          name={name}
          consequence="Its offsets go: consumers that come back begin where auto.offset.reset says."
          onClose={() => setIsDeleting(false)}
          onDelete={async () => {
            await change('DELETE', `v1/groups/${part(name)}`)
            go(['groups'])
          }}
        />
      )}
    </Page>
  )
}

function LagTable({ lag }: { lag: Lag }) {
  if (lag.partitions.length === 0) return <Empty title="The group has committed nothing yet" />
  return (
    <Card title="Where it is">
      <Table label="Lag by partition" columns={['Topic', '#Partition', '#Committed', '#Next offset', '#Lag', 'Consumer']}>
        {lag.partitions.map((row) => (
          <tr key={`${row.topic}-${row.partition}`}>
            <td>
              <a href={link(['topics', row.topic])}>{row.topic}</a>
            </td>
            <td className="number">{row.partition}</td>
            <td className="number">
              {count(row.committed)} {row.committed < row.start_offset && <Badge tone="warn">deleted</Badge>}
            </td>
            <td className="number">{count(row.end_offset)}</td>
            <td className="number">{count(row.lag)}</td>
            <td className="cut">{row.member_id ?? ''}</td>
          </tr>
        ))}
      </Table>
    </Card>
  )
}

function Members({ group }: { group: GroupDetail }) {
  if (group.members.length === 0) return null
  return (
    <Card title="Consumers">
      <Table label="Consumers" columns={['Client', 'Host', 'Member', 'Reads']}>
        {group.members.map((member) => (
          <tr key={member.member_id}>
            <td>{member.client_id}</td>
            <td>{member.host}</td>
            <td className="cut">{member.instance_id ?? member.member_id}</td>
            <td>{member.partitions.map((place) => `${place.topic}-${place.partition}`).join(', ') || <span className="dim">nothing</span>}</td>
          </tr>
        ))}
      </Table>
    </Card>
  )
}

type Target = 'earliest' | 'latest' | 'offset' | 'time' | 'shift'

export function wish(target: Target, value: string, topic: string): object {
  const where = topic === '' ? {} : { topic }
  switch (target) {
    case 'earliest':
    case 'latest':
      return { ...where, to: target }
    case 'offset':
      return { ...where, to: Number(value) }
    case 'time':
      return { ...where, timestamp: new Date(value).getTime() }
    case 'shift':
      return { ...where, shift: Number(value) }
  }
}

function Move({ name, lag, onMoved, isInUse }: { name: string; lag: Lag; onMoved: () => void; isInUse: boolean }) {
  const [target, setTarget] = useState<Target>('earliest')
  const [value, setValue] = useState('')
  const [topic, setTopic] = useState('')
  const [preview, setPreview] = useState<Moved | null>(null)
  const topics = [...new Set(lag.partitions.map((row) => row.topic))]
  const path = `v1/groups/${part(name)}/offsets`
  async function show(): Promise<void> {
    setPreview(await change<Moved>('POST', path, wish(target, value, topic)))
  }
  async function move(): Promise<void> {
    setPreview(await change<Moved>('POST', path, { ...wish(target, value, topic), execute: true }))
    onMoved()
  }
  return (
    <Card title="Move offsets">
      {isInUse && <p className="notice warn">Stop the group's consumers first: while they run, moving is refused.</p>}
      <Form submit="Preview" tone="" onSubmit={show}>
        <div className="row">
          <Field label="Topic">
            {(id) => (
              <select id={id} value={topic} onChange={(event) => (setTopic(event.target.value), setPreview(null))}>
                <option value="">all that it has read</option>
                {topics.map((one) => (
                  <option key={one}>{one}</option>
                ))}
              </select>
            )}
          </Field>
          <Field label="To">
            {(id) => (
              <select id={id} value={target} onChange={(event) => (setTarget(event.target.value as Target), setValue(''), setPreview(null))}>
                <option value="earliest">the beginning</option>
                <option value="latest">the end</option>
                <option value="offset">an offset</option>
                <option value="time">a time</option>
                <option value="shift">so many records on, or back (-)</option>
              </select>
            )}
          </Field>
          {(target === 'offset' || target === 'shift') && <Field label="Number">{(id) => <input id={id} required type="number" value={value} onChange={(event) => (setValue(event.target.value), setPreview(null))} />}</Field>}
          {target === 'time' && <Field label="Time">{(id) => <input id={id} required type="datetime-local" step={1} value={value} onChange={(event) => (setValue(event.target.value), setPreview(null))} />}</Field>}
        </div>
      </Form>
      {preview && (
        <>
          <Table label="Preview" columns={['Topic', '#Partition', '#Now', preview.executed ? '#Moved to' : '#Would be', '#Records']}>
            {preview.partitions.map((row) => (
              <tr key={`${row.topic}-${row.partition}`}>
                <td>{row.topic}</td>
                <td className="number">{row.partition}</td>
                <td className="number">{row.from === null ? '–' : count(row.from)}</td>
                <td className="number">{count(row.to)}</td>
                <td className="number">{row.from === null ? '–' : `${row.to - row.from > 0 ? '+' : ''}${count(row.to - row.from)}`}</td>
              </tr>
            ))}
          </Table>
          {preview.executed ? (
            <p className="notice" role="status">
              Moved.
            </p>
          ) : (
            <Form submit="Move the offsets" tone="danger" onSubmit={move}>
              {null}
            </Form>
          )}
        </>
      )}
    </Card>
  )
}
