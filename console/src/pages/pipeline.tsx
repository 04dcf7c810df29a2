// The Spark pipeline: how far its queries are, and what they have to say.
import { useEffect, useState } from 'react'
import { ApiError, get } from '../api'
import { nameOf, SYSTEM_TOPIC } from '../devices'
import { bytes, count, perSecond, readJson, time } from '../format'
import { Loaded, useLoad } from '../loading'
import type { StoredRecord } from '../model'
import { Badge, Card, Empty, Page, Sparkline, Table } from '../parts'
import { readNewest, useTail } from '../records'
import { link } from '../router'
import { type GroupWithLag, loadGroups, tone } from './groups'

const SHOWN_MAX = 100

async function load(signal: AbortSignal): Promise<StoredRecord[]> {
  try {
    return await readNewest(SYSTEM_TOPIC, 500, signal)
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return []
    throw error
  }
}

/** What the pipeline's own process tells of a query. */
interface Query {
  query: string
  running: boolean
  batch: number
  lag_records: number
  failures: number
  input_rows_per_second: number
  processed_rows_per_second: number
  batch_duration_milliseconds: number
  state_rows: number
  state_bytes: number
}

export function Pipeline() {
  const told = useLoad((signal) => get<{ reachable: boolean; queries: Query[] }>('v1/pipeline', signal), 'pipeline', 4000)
  const groups = useLoad((signal) => loadGroups(signal), 'pipeline groups', 4000)
  const courses = useCourses(groups.data)
  return (
    <Page title="Pipeline">
      <Card title="Queries">
        <Loaded from={groups} what="the queries">
          {(all) => {
            const queries = all.filter((group) => group.group.startsWith('pipeline-'))
            if (queries.length === 0)
              return (
                <Empty title="No query has begun">
                  <p>
                    <code>chordmq up</code> starts the pipeline where Spark and Java are; by itself: <code>chordmq pipeline run all</code>.
                  </p>
                </Empty>
              )
            return (
              <Table label="Queries" columns={COLUMNS}>
                {queries.map((query) => (
                  <QueryRow
                    key={query.group}
                    group={query}
                    told={told.data?.queries.find((one) => `pipeline-${one.query}` === query.group)}
                    course={rates(courses.get(query.group) ?? [])}
                  />
                ))}
              </Table>
            )
          }}
        </Loaded>
        {told.data?.reachable === false && (
          <p className="dim">
            The pipeline does not answer here, so that only its places in the topics are known. Where it runs elsewhere, <code>http.pipeline</code> says where it tells its metrics.
          </p>
        )}
      </Card>
      <Alerts />
    </Page>
  )
}

const COLUMNS = ['Query', 'State', '#In /s', '#Done /s', 'Course', '#Behind', '#Batch', '#Took', '#Remembers', '#Failures']

function QueryRow({ group, told, course }: { group: GroupWithLag; told: Query | undefined; course: number[] }) {
  return (
    <tr>
      <td>
        <a href={link(['groups', group.group])}>{group.group.replace('pipeline-', '')}</a>
      </td>
      <td>{told ? <Badge tone={told.running ? 'good' : 'warn'}>{told.running ? 'runs' : 'stands still'}</Badge> : <Badge tone={tone(group.state)}>{group.state}</Badge>}</td>
      <td className="number">{told ? perSecond(told.input_rows_per_second) : '–'}</td>
      <td className="number">{perSecond(told ? told.processed_rows_per_second : (course.at(-1) ?? 0))}</td>
      <td>
        <Sparkline values={course} label={`Records a second of ${group.group}`} />
      </td>
      <td className="number">{group.lag === null ? '–' : count(group.lag)}</td>
      <td className="number">{told && told.batch >= 0 ? count(told.batch) : '–'}</td>
      <td className="number">{told ? `${(told.batch_duration_milliseconds / 1000).toFixed(1)} s` : '–'}</td>
      <td className="number">{told ? `${count(told.state_rows)} (${bytes(told.state_bytes)})` : '–'}</td>
      <td className="number">{told ? count(told.failures) : '–'}</td>
    </tr>
  )
}

interface Progress {
  at_ms: number
  done: number
}

/** What each group had got through at each look. */
function useCourses(groups: GroupWithLag[] | undefined): Map<string, Progress[]> {
  const [courses, setCourses] = useState(new Map<string, Progress[]>())
  useEffect(() => {
    const at_ms = Date.now()
    if (groups) setCourses((before) => new Map(groups.map(({ group, done }) => [group, [...(before.get(group) ?? []), { at_ms, done }].slice(-SHOWN_MAX)])))
  }, [groups])
  return courses
}

/** Records a second between one look and the next; going back to an earlier place counts as none. */
export function rates(course: Progress[]): number[] {
  return course.slice(1).map((after, index) => {
    const before = course[index] ?? after
    const seconds = (after.at_ms - before.at_ms) / 1000
    return seconds > 0 ? Math.max(after.done - before.done, 0) / seconds : 0
  })
}

function Alerts() {
  const [isQuiet, setQuiet] = useState(true)
  const loaded = useLoad(load, 'alerts', isQuiet ? 4000 : 0)
  const [fresh, setFresh] = useState<StoredRecord[]>([])
  useEffect(() => setQuiet(!loaded.data?.length), [loaded.data])
  useTail(loaded.data && loaded.data.length > 0 ? SYSTEM_TOPIC : null, (records) => setFresh((before) => [...before, ...records].slice(-SHOWN_MAX)))
  return (
    <Card title="Alerts" actions={<a href={link(['topics', SYSTEM_TOPIC])}>All that it writes</a>}>
      <Loaded from={loaded} what="alerts">
        {(records) => {
          const known = new Map([...records, ...fresh].map((record) => [`${record.partition}:${record.offset}`, record]))
          const alerts = [...known.values()].filter((record) => nameOf(record).endsWith('/alerts')).slice(-SHOWN_MAX).reverse()
          if (alerts.length === 0) return <Empty title="No alerts" />
          return (
            <Table label="Alerts" columns={['Time', 'Kind', 'Device', 'What']}>
              {alerts.map((record) => (
                <Alert key={`${record.partition}:${record.offset}`} record={record} />
              ))}
            </Table>
          )
        }}
      </Loaded>
    </Card>
  )
}

export function readAlert(record: StoredRecord): { kind: string; device: string; text: string } {
  const json = readJson(record.value)
  const body = (typeof json === 'object' && json !== null && 'payload' in json ? json.payload : json) as Record<string, unknown> | null
  if (typeof body !== 'object' || body === null) return { kind: 'alert', device: record.key ?? '', text: record.value ?? '' }
  const text = (name: string): string => (body[name] === undefined || body[name] === null ? '' : String(body[name]))
  const kind = text('kind') || text('type') || text('severity') || 'alert'
  const device = text('deviceId') || text('device') || text('device_id') || (record.key ?? '')
  if (text('reason')) return { kind, device, text: `${text('reason')}${text('value') && `: ${text('value')} ${text('unit')}`}` }
  const rest = Object.entries(body).filter(([name]) => !['kind', 'type', 'deviceId', 'device', 'device_id'].includes(name))
  return { kind, device, text: rest.map(([name, value]) => `${name} ${typeof value === 'object' ? JSON.stringify(value) : String(value)}`).join(', ') }
}

function Alert({ record }: { record: StoredRecord }) {
  const alert = readAlert(record)
  return (
    <tr>
      <td className="nowrap">{time(record.timestamp)}</td>
      <td>
        <Badge tone={alert.kind === 'online' ? 'good' : 'warn'}>{alert.kind}</Badge>
      </td>
      <td>{alert.device}</td>
      <td>{alert.text}</td>
    </tr>
  )
}
