// The Spark pipeline: how far its queries are, and what they have to say.
import { useEffect, useState } from 'react'
import { ApiError } from '../api'
import { nameOf, SYSTEM_TOPIC } from '../devices'
import { count, perSecond, readJson, time } from '../format'
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

export function Pipeline() {
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
              <Table label="Queries" columns={['Query', 'State', '#Records /s', 'Course', '#Records behind']}>
                {queries.map((query) => (
                  <tr key={query.group}>
                    <td>
                      <a href={link(['groups', query.group])}>{query.group.replace('pipeline-', '')}</a>
                    </td>
                    <td>
                      <Badge tone={tone(query.state)}>{query.state}</Badge>
                    </td>
                    <td className="number">{perSecond(rates(courses.get(query.group) ?? []).at(-1) ?? 0)}</td>
                    <td>
                      <Sparkline values={rates(courses.get(query.group) ?? [])} label={`Records a second of ${query.group}`} />
                    </td>
                    <td className="number">{query.lag === null ? '–' : count(query.lag)}</td>
                  </tr>
                ))}
              </Table>
            )
          }}
        </Loaded>
        <p className="dim">Batches, state and failures of each query are Prometheus metrics of the pipeline's own process, port 9464 of its machine.</p>
      </Card>
      <Alerts />
    </Page>
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
  const loaded = useLoad(load, 'alerts')
  const [fresh, setFresh] = useState<StoredRecord[]>([])
  useTail(loaded.data && loaded.data.length > 0 ? SYSTEM_TOPIC : null, (records) => setFresh((before) => [...before, ...records].slice(-SHOWN_MAX)))
  return (
    <Card title="Alerts" actions={<a href={link(['topics', SYSTEM_TOPIC])}>All that it writes</a>}>
      <Loaded from={loaded} what="alerts">
        {(records) => {
          const alerts = [...records, ...fresh].filter((record) => nameOf(record).endsWith('/alerts')).slice(-SHOWN_MAX).reverse()
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
  const device = text('device') || text('device_id') || (record.key ?? '')
  const rest = Object.entries(body).filter(([name]) => !['kind', 'type', 'device', 'device_id'].includes(name))
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
