// One topic: its messages, partitions and settings.
import { useState } from 'react'
import { change, get, part } from '../api'
import { bytes, count, meaning } from '../format'
import { Fault, Loaded, type Loadable, useLoad } from '../loading'
import type { SettingRow, TopicDetail } from '../model'
import { Badge, Card, DeleteDialog, Dialog, Field, Form, Page, Table, Tabs } from '../parts'
import type { Place } from '../router'
import { Browser } from './browser'
import { deleteTopic } from './topics'

const TABS = { messages: 'Messages', partitions: 'Partitions', settings: 'Settings' }

export function Topic({ name, place }: { name: string; place: Place }) {
  const topic = useLoad((signal) => get<TopicDetail>(`v1/topics/${part(name)}`, signal), name, 5000)
  const [dialog, setDialog] = useState<'' | 'delete' | 'grow'>('')
  const tab = place.query.get('tab') ?? 'messages'
  return (
    <Page
      above={<a href="#/topics">Topics</a>}
      title={name}
      actions={
        topic.data &&
        !topic.data.internal && (
          <>
            <button onClick={() => setDialog('grow')}>Add partitions</button>
            <button onClick={() => setDialog('delete')}>Delete</button>
          </>
        )
      }
    >
      <Tabs tabs={TABS} place={place} chosen={tab} />
      <Loaded from={topic} what="this topic">
        {(data) => (
          <>
            {tab === 'messages' && <Browser topic={data} place={place} />}
            {tab === 'partitions' && <Partitions topic={data} />}
            {tab === 'settings' && <TopicSettings name={name} />}
            {dialog === 'grow' && (
              <Grow
                topic={data}
                onClose={() => {
                  setDialog('')
                  topic.reload()
                }}
              />
            )}
          </>
        )}
      </Loaded>
      {dialog === 'delete' && (
        <DeleteDialog kind="topic" name={name} consequence="All its records go, on every node. There is no way back." onDelete={() => deleteTopic(name)} onClose={() => setDialog('')} />
      )}
    </Page>
  )
}

function Partitions({ topic }: { topic: TopicDetail }) {
  const hasCopies = topic.partitions.some((row) => row.replicas !== undefined)
  return (
    <Card title={`${topic.partitions.length} partitions`}>
      <Table label="Partitions" columns={['Partition', '#Leader', ...(hasCopies ? ['Copies', 'In sync'] : []), '#First offset', '#Next offset', '#Records', '#Size']}>
        {topic.partitions.map((row) => (
          <tr key={row.partition}>
            <td>{row.partition}</td>
            <td className="number">{row.leader < 0 ? <Badge tone="bad">none</Badge> : row.leader}</td>
            {hasCopies && (
              <>
                <td>{row.replicas?.join(', ')}</td>
                <td>
                  {row.in_sync?.join(', ')} {(row.in_sync?.length ?? 0) < (row.replicas?.length ?? 0) && <Badge tone="warn">behind</Badge>}
                </td>
              </>
            )}
            <td className="number">{count(row.start_offset)}</td>
            <td className="number">{count(row.end_offset)}</td>
            <td className="number">{count(row.end_offset - row.start_offset)}</td>
            <td className="number">{bytes(row.size_bytes)}</td>
          </tr>
        ))}
      </Table>
    </Card>
  )
}

function Grow({ topic, onClose }: { topic: TopicDetail; onClose: () => void }) {
  const [wanted, setWanted] = useState(String(topic.partitions.length + 1))
  return (
    <Dialog title="Add partitions" onClose={onClose}>
      <Form
        submit="Add partitions"
        onSubmit={async () => {
          await change('PUT', `v1/topics/${part(topic.name)}/partitions`, { count: Number(wanted) })
          onClose()
        }}
      >
        <Field label="Partitions in all" hint="New records of a key may then lie in another partition than its old ones.">
          {(id) => <input id={id} type="number" min={topic.partitions.length + 1} max={10000} value={wanted} onChange={(event) => setWanted(event.target.value)} />}
        </Field>
      </Form>
    </Dialog>
  )
}

function TopicSettings({ name }: { name: string }) {
  const settings = useLoad((signal) => get<{ settings: SettingRow[] }>(`v1/topics/${part(name)}/settings`, signal), `settings ${name}`)
  const [search, setSearch] = useState('')
  if (settings.error && !settings.data) return <Fault error={settings.error} what="the settings of this topic" />
  return (
    <Loaded from={settings} what="settings">
      {({ settings: rows }) => (
        <Card title="Settings" actions={<input type="search" aria-label="Search settings" placeholder="Search ( / )" value={search} onChange={(event) => setSearch(event.target.value)} />}>
          <Table label="Settings" columns={['Setting', 'Value', 'From', '']}>
            {rows
              .filter((row) => `${row.name} ${row.help}`.toLowerCase().includes(search.toLowerCase()))
              .map((row) => (
                <Setting key={row.name} topic={name} row={row} settings={settings} />
              ))}
          </Table>
        </Card>
      )}
    </Loaded>
  )
}

function Setting({ topic, row, settings }: { topic: string; row: SettingRow; settings: Loadable<unknown> }) {
  const [isOpen, setIsOpen] = useState(false)
  const isOwn = /topic/.test(row.source)
  async function set(value: string | null): Promise<void> {
    await change('PATCH', `v1/topics/${part(topic)}/settings`, { [row.name]: value })
    setIsOpen(false)
    settings.reload()
  }
  return (
    <tr>
      <td>
        <code>{row.name}</code>
        <br />
        <small>{row.help}</small>
      </td>
      <td>
        <code>{row.value === '' ? '(empty)' : row.value}</code>
        <br />
        <small>{meaning(row.name, row.value)}</small>
      </td>
      <td>
        <Badge tone={isOwn ? 'good' : 'plain'}>{row.source}</Badge>
      </td>
      <td className="nowrap">
        <button className="quiet" aria-label={`Change ${row.name}`} onClick={() => setIsOpen(true)}>
          Change
        </button>
        {isOpen && <EditSetting row={row} isOwn={isOwn} onSet={set} onClose={() => setIsOpen(false)} />}
      </td>
    </tr>
  )
}

function EditSetting({ row, isOwn, onSet, onClose }: { row: SettingRow; isOwn: boolean; onSet: (value: string | null) => Promise<void>; onClose: () => void }) {
  const [value, setValue] = useState(row.value)
  const isNumber = /^-?\d+$/.test(row.value)
  return (
    <Dialog title={row.name} onClose={onClose}>
      <p>{row.help}</p>
      <Form submit="Save" onSubmit={() => onSet(value)}>
        <Field label="Value" hint={meaning(row.name, value)}>
          {(id) =>
            row.value === 'true' || row.value === 'false' ? (
              <select id={id} value={value} onChange={(event) => setValue(event.target.value)}>
                <option>true</option>
                <option>false</option>
              </select>
            ) : (
              <input id={id} value={value} autoFocus {...(isNumber ? { pattern: '-?[0-9]+', title: 'a whole number' } : {})} onChange={(event) => setValue(event.target.value)} />
            )
          }
        </Field>
      </Form>
      {isOwn && (
        <Form submit="Go back to the node's value" tone="quiet" onSubmit={() => onSet(null)}>
          {null}
        </Form>
      )}
    </Dialog>
  )
}
