// The message browser: live or from a place on, filtered, each message in every form.
import { useEffect, useState } from 'react'
import { readDeadLetter } from '../dead_letters'
import { count, time } from '../format'
import { FilterFault, readFilter } from '../filter'
import { useDoing } from '../loading'
import type { StoredRecord, TopicDetail } from '../model'
import { Card, Empty, Field, Table } from '../parts'
import { chosen as chosenOf, inTime, place as placeOf, read, readable, type Start, useTail } from '../records'
import { go, type Place } from '../router'
import { Message } from './message'
import { Publish } from './publish'
import { Redrive } from './redrive'

const WANTED = 100
const SHOWN_MAX = 500
const PAGE = 1000
const SCANNED_MAX = 100_000

interface Found {
  records: StoredRecord[]
  scanned: number
  /** Where to go on; empty when the end was reached. */
  position: string
}

export function Browser({ topic, place }: { topic: TopicDetail; place: Place }) {
  const [text, setText] = useState(place.query.get('filter') ?? '')
  const [found, setFound] = useState<Found | null>(null)
  const [live, setLive] = useState<StoredRecord[]>([])
  const [mode, setMode] = useState<Start['from'] | 'live'>('live')
  const [chosen, setChosen] = useState<StoredRecord | null>(null)
  const [hasRead, setHasRead] = useState(false)
  const [frozen, setFrozen] = useState<StoredRecord[] | null>(null)
  const { isBusy, fault, doing } = useDoing()
  const filter = safely(text)
  const only = chosenOf(topic.partitions).partition ?? ''
  const tail = useTail(mode === 'live' ? topic.name : null, (records) => setLive((before) => merged(before, records)), only)
  // Those who begin by watching see what came last as well.
  useEffect(() => {
    doing(async () => {
      const last = await collect(topic, { from: 'newest' }, () => true)
      setLive((before) => merged(last.records, before))
      setHasRead(true)
    })
  }, [topic.name])
  function search(start: Start, test = filter.test): void {
    setMode(start.from)
    doing(async () => setFound(await collect(topic, start, test)))
  }
  const records = mode === 'live' ? (frozen ?? live).filter(filter.test) : (found?.records ?? [])
  const dead = records.filter((record) => readDeadLetter(topic.name, record) !== null)
  return (
    <div className={`browser ${chosen ? 'split' : ''}`}>
      <Card>
        <Controls
          topic={topic}
          mode={mode}
          onLive={() => {
            setMode('live')
            setFrozen(null)
          }}
          onSearch={search}
          onKey={(key) => {
            setText(`key="${key}"`)
            search({ from: 'earliest' }, (record) => record.key === key)
          }}
        />
        <div className="field">
          <input
            type="search"
            aria-label="Filter messages"
            placeholder='Filter ( / ): oven  key=oven-1  value.temp>80  header.source~plant  partition=0  !"not this"'
            value={text}
            onChange={(event) => setText(event.target.value)}
            onBlur={() => go(place.path, { ...Object.fromEntries(place.query), filter: text })}
          />
          {filter.fault && <small role="alert">{filter.fault}</small>}
        </div>
        {only !== '' && (
          <p className="notice warn">
            Only partitions {only} are read, {readable(topic.partitions).length} of {topic.partitions.length}; choose an offset to see others.
          </p>
        )}
        {(fault || tail.fault) && (
          <p className="notice bad" role="alert">
            {fault || tail.fault}
          </p>
        )}
        <div className="actions">
          <small className={mode === 'live' ? `live ${tail.state}` : ''} role="status">
            {mode === 'live' ? (frozen ? 'paused' : tail.state === 'lost' ? 'connecting again' : 'live') : isBusy ? 'reading' : `${count(found?.scanned ?? 0)} read`}, {count(records.length)} shown
          </small>
          {mode === 'live' && (
            <button className="quiet" aria-pressed={frozen !== null} onClick={() => setFrozen(frozen ? null : live)}>
              {frozen ? 'Go on' : 'Pause'}
            </button>
          )}
          {mode !== 'live' && found?.position && (
            <button className="quiet" disabled={isBusy} onClick={() => doing(async () => setFound(await onward(topic, found, filter.test)))}>
              Read on
            </button>
          )}
          {dead.length > 0 && <Redrive topic={topic.name} records={dead} />}
        </div>
        {records.length === 0 ? <Nothing isBusy={isBusy || (!hasRead && fault === '')} hasFilter={text !== ''} /> : <Rows topic={topic.name} records={mode === 'live' ? [...records].reverse() : records} chosen={chosen} onChoose={setChosen} />}
      </Card>
      {chosen && (
        <aside>
          <Message topic={topic.name} record={chosen} onClose={() => setChosen(null)} />
        </aside>
      )}
      {!topic.internal && <Publish topic={topic} />}
    </div>
  )
}

/** Both lists in one, without what is in both. */
function merged(first: StoredRecord[], second: StoredRecord[]): StoredRecord[] {
  const known = new Set(first.map((record) => `${record.partition}:${record.offset}`))
  return [...first, ...second.filter((record) => !known.has(`${record.partition}:${record.offset}`))].slice(-SHOWN_MAX)
}

function Nothing({ isBusy, hasFilter }: { isBusy: boolean; hasFilter: boolean }) {
  if (isBusy) return <div className="waiting" role="status"><div className="bone" /><div className="bone short" /></div>
  return <Empty title={hasFilter ? 'No message fits the filter' : 'No messages here yet'}>{!hasFilter && <p>Send one below, or from any client: it shows up here the moment it is stored.</p>}</Empty>
}

function safely(text: string): { test: (record: StoredRecord) => boolean; fault: string } {
  try {
    return { test: readFilter(text), fault: '' }
  } catch (error) {
    if (error instanceof FilterFault) return { test: () => true, fault: error.message }
    throw error
  }
}

async function collect(topic: TopicDetail, start: Start, test: (record: StoredRecord) => boolean): Promise<Found> {
  const first = await read(topic.name, placeOf(start, topic, WANTED), start.from === 'newest' ? Math.min(WANTED * topic.partitions.length, 5000) : PAGE)
  if (start.from === 'newest') return { records: inTime(first.records).filter(test).slice(-WANTED), scanned: first.records.length, position: '' }
  const begun = { records: [], scanned: 0, position: first.position }
  return fill(topic, begun, first.records, first.position === first.end, test)
}

async function onward(topic: TopicDetail, before: Found, test: (record: StoredRecord) => boolean): Promise<Found> {
  return fill(topic, before, [], false, test)
}

/** Read on until enough records fit, the end is reached or too many were read for one search. */
async function fill(topic: TopicDetail, before: Found, batch: StoredRecord[], isEnd: boolean, test: (record: StoredRecord) => boolean): Promise<Found> {
  const wanted = before.records.length + WANTED
  let { position, scanned } = before
  let records = [...before.records, ...inTime(batch).filter(test)]
  scanned += batch.length
  while (!isEnd && records.length < wanted && scanned - before.scanned < SCANNED_MAX) {
    const next = await read(topic.name, { ...chosenOf(topic.partitions), position }, PAGE)
    records = [...records, ...inTime(next.records).filter(test)]
    scanned += next.records.length
    position = next.position
    isEnd = next.records.length === 0 || next.position === next.end
  }
  return { records, scanned, position: isEnd ? '' : position }
}

interface Wishes {
  topic: TopicDetail
  mode: string
  onLive: () => void
  onSearch: (start: Start) => void
  onKey: (key: string) => void
}

function Controls({ topic, mode, onLive, onSearch, onKey }: Wishes) {
  const [partition, setPartition] = useState('0')
  const [offset, setOffset] = useState('0')
  const [at, setAt] = useState('')
  const [key, setKey] = useState('')
  const [way, setWay] = useState<Start['from'] | 'live' | 'key'>('live')
  function begin(next: Start['from'] | 'live' | 'key'): void {
    setWay(next)
    if (next === 'live') onLive()
    if (next === 'newest' || next === 'earliest') onSearch({ from: next })
  }
  return (
    <div className="row">
      <Field label="Show">
        {(id) => (
          <select id={id} value={way} onChange={(event) => begin(event.target.value as typeof way)}>
            <option value="live">live</option>
            <option value="newest">the newest {WANTED}</option>
            <option value="earliest">from the beginning</option>
            <option value="offset">from an offset</option>
            <option value="time">from a time</option>
            <option value="key">of a key</option>
          </select>
        )}
      </Field>
      {way === 'offset' && (
        <>
          <Field label="Partition">
            {(id) => (
              <select id={id} value={partition} onChange={(event) => setPartition(event.target.value)}>
                {topic.partitions.map((row) => (
                  <option key={row.partition}>{row.partition}</option>
                ))}
              </select>
            )}
          </Field>
          <Field label="Offset">{(id) => <input id={id} type="number" min={0} value={offset} onChange={(event) => setOffset(event.target.value)} />}</Field>
          <button onClick={() => onSearch({ from: 'offset', partition: Number(partition), offset: Number(offset) })}>Read</button>
        </>
      )}
      {way === 'time' && (
        <>
          <Field label="Time">{(id) => <input id={id} type="datetime-local" step={1} value={at} onChange={(event) => setAt(event.target.value)} />}</Field>
          <button disabled={at === ''} onClick={() => onSearch({ from: 'time', at_ms: new Date(at).getTime() })}>
            Read
          </button>
        </>
      )}
      {way === 'key' && (
        <>
          <Field label="Key is">{(id) => <input id={id} value={key} onChange={(event) => setKey(event.target.value)} />}</Field>
          <button disabled={key === ''} onClick={() => onKey(key)}>
            Read
          </button>
        </>
      )}
      {mode !== 'live' && mode === way && (mode === 'newest' || mode === 'earliest') && <button onClick={() => onSearch({ from: mode })}>Read again</button>}
    </div>
  )
}

function Rows({ topic, records, chosen, onChoose }: { topic: string; records: StoredRecord[]; chosen: StoredRecord | null; onChoose: (record: StoredRecord) => void }) {
  const areDead = records.some((record) => readDeadLetter(topic, record))
  return (
    <Table label="Messages" columns={['Time', '#Place', 'Key', 'Value', ...(areDead ? ['Why it is here'] : [])]}>
      {records.map((record) => (
        <tr
          key={`${record.partition}:${record.offset}`}
          className={`open ${chosen?.partition === record.partition && chosen.offset === record.offset ? 'chosen' : ''}`}
          tabIndex={0}
          onClick={() => onChoose(record)}
          onKeyDown={(event) => event.key === 'Enter' && onChoose(record)}
        >
          <td className="nowrap">{time(record.timestamp)}</td>
          <td className="number">
            {record.partition}:{record.offset}
          </td>
          <td className="cut">{record.key ?? <i className="dim">none</i>}</td>
          <td className="cut">{record.value === null ? <i className="dim">none (deletes its key)</i> : record.value.slice(0, 300)}</td>
          {areDead && <td>{readDeadLetter(topic, record)?.reason}</td>}
        </tr>
      ))}
    </Table>
  )
}
