// All topics: how large they are, how much comes in, and a new one.
import { useState } from 'react'
import { change, get, part } from '../api'
import { bytes, count, perSecond } from '../format'
import { Loaded, useLoad } from '../loading'
import { byLabel, rate } from '../metrics'
import type { TopicDetail, TopicRow } from '../model'
import { Badge, Dialog, Empty, Field, Form, openRow, Page, Table } from '../parts'
import { go, link } from '../router'
import { isDeadLetterTopic } from '../dead_letters'
import { useScrapes } from './overview'

export function Topics() {
  const topics = useLoad((signal) => get<{ topics: TopicRow[] }>('v1/topics', signal), 'topics', 5000)
  const [search, setSearch] = useState('')
  const [showsInternal, setShowsInternal] = useState(false)
  const [isCreating, setIsCreating] = useState(false)
  return (
    <Page
      title="Topics"
      actions={
        <button className="primary" onClick={() => setIsCreating(true)}>
          Create topic
        </button>
      }
    >
      <div className="row">
        <div className="field wide">
          <input type="search" aria-label="Search topics" placeholder="Search ( / )" value={search} onChange={(event) => setSearch(event.target.value)} />
        </div>
        <label>
          <input type="checkbox" checked={showsInternal} onChange={(event) => setShowsInternal(event.target.checked)} /> the broker's own
        </label>
      </div>
      <Loaded from={topics} what="topics">
        {({ topics: all }) => {
          const shown = all.filter((topic) => topic.name.includes(search) && (showsInternal || !topic.internal))
          if (shown.length > 0) return <List topics={shown} />
          return (
            <Empty title={search ? 'No topic has this in its name' : 'There are no topics that you may see'}>
              {!search && <button onClick={() => setIsCreating(true)}>Create the first one</button>}
            </Empty>
          )
        }}
      </Loaded>
      {isCreating && <CreateTopic onClose={() => setIsCreating(false)} />}
    </Page>
  )
}

function List({ topics }: { topics: TopicRow[] }) {
  const scrapes = useScrapes()
  const [before, after] = [scrapes.at(-2), scrapes.at(-1)]
  const sizes = byLabel(after?.samples ?? [], 'chordmq_log_bytes', 'topic')
  const records = byLabel(after?.samples ?? [], 'chordmq_records_in_total', 'topic')
  return (
    <Table label="Topics" columns={['Topic', '#Partitions', '#Size on this node', '#Records since the start', '#Records in /s']}>
      {topics.map((topic) => (
        <tr key={topic.id} {...openRow(['topics', topic.name])}>
          <td>
            <a href={link(['topics', topic.name])}>{topic.name}</a> {topic.internal && <Badge>the broker's own</Badge>} {isDeadLetterTopic(topic.name) && <Badge tone="warn">dead letters</Badge>}
          </td>
          <td className="number">{topic.partitions}</td>
          <td className="number">{sizes.has(topic.name) ? bytes(sizes.get(topic.name) ?? 0) : '–'}</td>
          <td className="number">{records.has(topic.name) ? count(records.get(topic.name) ?? 0) : '–'}</td>
          <td className="number">{before && after ? perSecond(rate(before, after, 'chordmq_records_in_total', { topic: topic.name })) : '–'}</td>
        </tr>
      ))}
    </Table>
  )
}

const KEEP = { '': "as the node's settings say", '3600000': 'one hour', '86400000': 'one day', '604800000': 'one week', '-1': 'for ever' }
const CLEANUP = { '': "as the node's settings say", delete: 'delete what is too old', compact: 'keep the newest record of each key', 'compact,delete': 'both' }
const FLUSH = { '': "as the node's settings say", disk: 'it is on disk (survives a power cut)', os: 'it is written (survives a crash of the node)' }

function Choice({ id, of, value, onChange }: { id: string; of: Record<string, string>; value: string; onChange: (value: string) => void }) {
  return (
    <select id={id} value={value} onChange={(event) => onChange(event.target.value)}>
      {Object.entries(of)
        .sort(([one], [other]) => Number(one !== '') - Number(other !== ''))
        .map(([key, title]) => (
          <option key={key} value={key}>
            {title}
          </option>
        ))}
    </select>
  )
}

function CreateTopic({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState('')
  const [partitions, setPartitions] = useState('')
  const [replicas, setReplicas] = useState('')
  const [settings, setSettings] = useState<Record<string, string>>({})
  const [more, setMore] = useState('')
  const set = (setting: string) => (value: string) => setSettings({ ...settings, [setting]: value })
  async function create(): Promise<void> {
    const chosen = Object.entries(settings).filter(([, value]) => value !== '')
    await change<TopicDetail>('POST', 'v1/topics', {
      name,
      ...(partitions && { partitions: Number(partitions) }),
      ...(replicas && { replication_factor: Number(replicas) }),
      settings: { ...Object.fromEntries(chosen), ...readSettings(more) },
    })
    go(['topics', name])
  }
  return (
    <Dialog title="Create topic" onClose={onClose}>
      <Form submit="Create topic" onSubmit={create}>
        <Field label="Name" hint="Letters, digits, dots, - and _. MQTT's x/y/z lies in x.y.">
          {(id) => <input id={id} required autoFocus maxLength={249} pattern="[a-zA-Z0-9._\-]+" value={name} onChange={(event) => setName(event.target.value)} />}
        </Field>
        <div className="row">
          <Field label="Partitions" hint="How many consumers of a group can share the work. Can grow, never shrink.">
            {(id) => <input id={id} type="number" min={1} max={10000} placeholder="node's default" value={partitions} onChange={(event) => setPartitions(event.target.value)} />}
          </Field>
          <Field label="Copies" hint="Nodes that hold each record.">
            {(id) => <input id={id} type="number" min={1} max={100} placeholder="node's default" value={replicas} onChange={(event) => setReplicas(event.target.value)} />}
          </Field>
        </div>
        <Field label="Keep records for">{(id) => <Choice id={id} of={KEEP} value={settings['retention.ms'] ?? ''} onChange={set('retention.ms')} />}</Field>
        <Field label="Old records">{(id) => <Choice id={id} of={CLEANUP} value={settings['cleanup.policy'] ?? ''} onChange={set('cleanup.policy')} />}</Field>
        <Field label="A record counts as stored when">{(id) => <Choice id={id} of={FLUSH} value={settings.flush ?? ''} onChange={set('flush')} />}</Field>
        <details>
          <summary>Other settings</summary>
          <Field label="One a line: name=value" hint={<a href="#/settings">All settings are explained on a topic's page.</a>}>
            {(id) => <textarea id={id} placeholder="max.message.bytes=2097152" value={more} onChange={(event) => setMore(event.target.value)} />}
          </Field>
        </details>
      </Form>
    </Dialog>
  )
}

export function readSettings(text: string): Record<string, string> {
  const lines = text.split('\n').map((line) => line.trim()).filter(Boolean)
  return Object.fromEntries(
    lines.map((line) => {
      const at = line.indexOf('=')
      if (at < 1) throw new Error(`${line}: write name=value`)
      return [line.slice(0, at).trim(), line.slice(at + 1).trim()]
    }),
  )
}

export async function deleteTopic(name: string): Promise<void> {
  await change('DELETE', `v1/topics/${part(name)}`)
  go(['topics'])
}
