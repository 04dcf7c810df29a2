// The first page: is it well, how much passes through, who is there; and how to begin.
import { useEffect, useRef, useState } from 'react'
import { ApiError, get, getText } from '../api'
import { bytes, count, duration, perSecond } from '../format'
import { Loaded, useLoad } from '../loading'
import { byLabel, quantile, rate, readMetrics, type Scrape, total } from '../metrics'
import type { Cluster, Info, TopicRow } from '../model'
import { Badge, Card, Page, Stat } from '../parts'
import { alarms } from '../alarms'
import { Welcome } from './welcome'

const EVERY_MS = 2000
const SCRAPES_MAX = 90

interface Node {
  info: Info
  reasons: string[]
  cluster: Cluster | null
  topics: TopicRow[]
}

async function load(signal: AbortSignal): Promise<Node> {
  const [info, topics, cluster, ready] = await Promise.all([
    get<Info>('v1/info', signal),
    get<{ topics: TopicRow[] }>('v1/topics', signal),
    get<Cluster>('v1/cluster', signal).catch(unlessForbidden),
    get<{ reasons?: string[] }>('ready', signal).catch((error: unknown) => ({ reasons: [error instanceof Error ? error.message : ''] })),
  ])
  return { info, cluster, topics: topics.topics, reasons: ready.reasons ?? [] }
}

function unlessForbidden(error: unknown): null {
  if (error instanceof ApiError && error.status === 403) return null
  throw error
}

export function useScrapes(): Scrape[] {
  const [scrapes, setScrapes] = useState<Scrape[]>([])
  const loaded = useLoad((signal) => getText('metrics', signal), 'metrics', EVERY_MS)
  const last = useRef('')
  useEffect(() => {
    if (loaded.data === undefined || loaded.data === last.current) return
    last.current = loaded.data
    const scrape = { at_ms: Date.now(), samples: readMetrics(loaded.data) }
    setScrapes((before) => [...before, scrape].slice(-SCRAPES_MAX))
  }, [loaded.data])
  return scrapes
}

function rates(scrapes: Scrape[], name: string): number[] {
  return scrapes.slice(1).map((after, index) => rate(scrapes[index] as Scrape, after, name))
}

export function Overview() {
  const node = useLoad(load, 'overview', 3000)
  const scrapes = useScrapes()
  return (
    <Page
      title="Overview"
      actions={node.data && <Badge tone={node.data.reasons.length === 0 ? 'good' : 'bad'}>{node.data.reasons.length === 0 ? 'ready' : 'not ready'}</Badge>}
    >
      <Loaded from={node} what="the node">
        {(data) => (
          <>
            {!data.topics.some((topic) => !topic.internal) && <Welcome onDone={node.reload} />}
            <Alarms node={data} scrapes={scrapes} />
            <Traffic scrapes={scrapes} />
            <div className="grid">
              <Connections scrapes={scrapes} />
              <About node={data} scrapes={scrapes} />
            </div>
          </>
        )}
      </Loaded>
    </Page>
  )
}

function Alarms({ node, scrapes }: { node: Node; scrapes: Scrape[] }) {
  const found = alarms(node.reasons, node.cluster?.nodes ?? [], scrapes.at(-1)?.samples ?? [])
  if (found.length === 0) return null
  return (
    <Card title="Alarms">
      {found.map((alarm) => (
        <p key={alarm} className="notice warn" role="alert">
          {alarm}
        </p>
      ))}
    </Card>
  )
}

function Traffic({ scrapes }: { scrapes: Scrape[] }) {
  const records = rates(scrapes, 'chordmq_records_in_total')
  const bytesIn = rates(scrapes, 'chordmq_bytes_in_total')
  const bytesOut = rates(scrapes, 'chordmq_bytes_out_total')
  const samples = scrapes.at(-1)?.samples ?? []
  const lag = quantile(samples, 'chordmq_loop_lag_seconds', 0.99)
  const lags = scrapes.map((scrape) => total(scrape.samples, 'chordmq_loop_lag_last_seconds') ?? 0)
  return (
    <div className="stats">
      <Stat label="Records in" value={perSecond(records.at(-1) ?? 0)} unit="/s" values={records} />
      <Stat label="Bytes in" value={bytes(bytesIn.at(-1) ?? 0)} unit="/s" values={bytesIn} />
      <Stat label="Bytes out" value={bytes(bytesOut.at(-1) ?? 0)} unit="/s" values={bytesOut} />
      <Stat label="Event loop late, 99 %" value={lag === null ? '–' : `≤ ${lag * 1000}`} unit="ms" values={lags} />
    </div>
  )
}

function Connections({ scrapes }: { scrapes: Scrape[] }) {
  const samples = scrapes.at(-1)?.samples ?? []
  const open = byLabel(samples, 'chordmq_connections', 'listener')
  const most = Math.max(1, ...open.values())
  return (
    <Card title="Connections by protocol" actions={<a href="#/clients">Clients</a>}>
      <div className="bars">
        {[...open].map(([listener, number]) => (
          <Bar key={listener} label={listener} number={number} most={most} />
        ))}
      </div>
    </Card>
  )
}

function Bar({ label, number, most }: { label: string; number: number; most: number }) {
  return (
    <>
      <span>{label}</span>
      <i style={{ width: `${(number / most) * 100}%` }} />
      <span className="number">{count(number)}</span>
    </>
  )
}

function About({ node, scrapes }: { node: Node; scrapes: Scrape[] }) {
  const samples = scrapes.at(-1)?.samples ?? []
  const rows: [string, string][] = [
    ['Node', `${node.info.node_id ?? '–'} · version ${node.info.version}`],
    ['Up for', duration(node.info.uptime_ms ?? 0)],
    ['Nodes', node.cluster === null ? 'not for you' : `${node.cluster.nodes.filter((one) => one.live).length} of ${node.cluster.nodes.length} live`],
    ['Topics', count(node.topics.filter((topic) => !topic.internal).length)],
    ['Groups', node.cluster === null ? 'not for you' : count(node.cluster.groups)],
    ['On disk', bytes(total(samples, 'chordmq_log_bytes') ?? 0)],
    ['Room left', bytes(total(samples, 'chordmq_disk_free_bytes') ?? 0)],
    ['Memory', bytes(total(samples, 'process_resident_memory_bytes') ?? 0)],
  ]
  return (
    <Card title="This node" actions={<a href="metrics">Metrics</a>}>
      <table>
        <tbody>
          {rows.map(([label, value]) => (
            <tr key={label}>
              <th scope="row">{label}</th>
              <td>{value}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Card>
  )
}
