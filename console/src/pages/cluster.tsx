// The cluster: the ring with who owns what, the nodes, and partitions that need care.
import { get, part } from '../api'
import { bytes, count } from '../format'
import { Loaded, useLoad } from '../loading'
import type { Cluster, TopicDetail, TopicRow } from '../model'
import { Badge, Card, Page, Stat, Table } from '../parts'
import { arc, onCircle, type Spot, spots } from '../ring'
import { link } from '../router'
import { type Unsettled, unsettled } from '../unsettled'

const SIZE = 360
const CENTRE = SIZE / 2
const RADIUS = 120
const TOPICS_MAX = 200

export function ClusterPage() {
  const cluster = useLoad((signal) => get<Cluster>('v1/cluster', signal), 'cluster', 4000)
  return (
    <Page title="Cluster">
      <Loaded from={cluster} what="the cluster">
        {(data) => (
          <>
            <div className="stats">
              <Stat label="Nodes" value={`${data.nodes.filter((node) => node.live).length} / ${data.nodes.length}`} />
              <Stat label="Topics" value={count(data.topics)} />
              <Stat label="Partitions" value={count(data.partitions)} />
              <Stat label="Groups" value={count(data.groups)} />
              <Stat label="On this node's disk" value={bytes(data.size_bytes)} />
            </div>
            <div className="grid">
              <Ring cluster={data} />
              <About cluster={data} />
            </div>
            <Nodes cluster={data} />
            {data.nodes.length > 1 && <Partitions />}
          </>
        )}
      </Loaded>
    </Page>
  )
}

function colour(index: number, all: number): string {
  return `hsl(${(190 + (index * 360) / all) % 360} 55% 50%)`
}

function Ring({ cluster }: { cluster: Cluster }) {
  const placed = spots(cluster.nodes)
  const mine = placed.find((spot) => spot.node.place === cluster.ring?.place)
  const fingers = placed.filter((spot) => cluster.ring?.fingers.includes(spot.node.id) && spot !== mine)
  return (
    <Card title="The ring">
      <svg className="ring" viewBox={`0 0 ${SIZE} ${SIZE}`} role="img" aria-label={`The ring with ${placed.length} nodes`}>
        {placed.map((spot, index) => (
          <path key={spot.node.id} className="arc" d={arc(spot, RADIUS, CENTRE)} stroke={colour(index, placed.length)} opacity={spot.node.live ? 0.85 : 0.2}>
            <title>
              Node {spot.node.id} owns {(spot.share * 100).toFixed(1)} %
            </title>
          </path>
        ))}
        {mine && fingers.map((spot) => <Finger key={spot.node.id} from={mine} to={spot} />)}
        {placed.map((spot, index) => (
          <Node key={spot.node.id} spot={spot} colour={colour(index, placed.length)} />
        ))}
        {placed.length === 1 && (
          <text x={CENTRE} y={CENTRE}>
            one node owns everything
          </text>
        )}
      </svg>
    </Card>
  )
}

function Finger({ from, to }: { from: Spot; to: Spot }) {
  const [start, end] = [onCircle(from.turn, RADIUS, CENTRE), onCircle(to.turn, RADIUS, CENTRE)]
  return <line className="finger" x1={start.x} y1={start.y} x2={end.x} y2={end.y} />
}

function Node({ spot, colour: fill }: { spot: Spot; colour: string }) {
  const at = onCircle(spot.turn, RADIUS, CENTRE)
  const label = onCircle(spot.turn, RADIUS + 34, CENTRE)
  return (
    <g>
      <circle className="spot" cx={at.x} cy={at.y} r={12} fill={spot.node.live ? fill : 'var(--dim)'} />
      <text x={label.x} y={label.y}>
        {spot.node.id}
        {spot.node.controller ? ' ★' : ''}
      </text>
      <text x={label.x} y={label.y + 14} opacity={0.7}>
        {(spot.share * 100).toFixed(0)} %
      </text>
    </g>
  )
}

function About({ cluster }: { cluster: Cluster }) {
  const { ring } = cluster
  const name = (id: number | null): string => (id === null ? 'none' : String(id))
  const rows: [string, string][] =
    ring === null
      ? [['Cluster', cluster.id]]
      : [
          ['Cluster', cluster.id],
          ['This node at', ring.place],
          ['Before it', name(ring.predecessor)],
          ['After it', ring.successors.join(', ') || 'none'],
          ['Fingers', ring.fingers.join(', ') || 'none'],
          ['Did not answer just now', ring.suspects.join(', ') || 'none'],
          ['Look-ups', `${count(ring.lookups)}, ${ring.lookups ? (ring.hops / ring.lookups).toFixed(2) : '0'} nodes asked for each`],
        ]
  return (
    <Card title="As this node sees it">
      <table>
        <tbody>
          {rows.map(([label, value]) => (
            <tr key={label}>
              <th scope="row">{label}</th>
              <td className="mono">{value}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {ring === null && <p className="dim">A node alone leads everything. <code>chordmq up --nodes 3</code> starts a cluster.</p>}
    </Card>
  )
}

function Nodes({ cluster }: { cluster: Cluster }) {
  return (
    <Card title="Nodes">
      <Table label="Nodes" columns={['Node', 'State', 'Rack', 'Kafka', 'HTTP', '#Leads', '#Holds']}>
        {cluster.nodes.map((node) => (
          <tr key={node.id}>
            <td>
              {node.id} {node.controller && <Badge>controller</Badge>}
            </td>
            <td>{node.live ? node.linked ? <Badge tone="good">live</Badge> : <Badge tone="warn">not linked</Badge> : <Badge tone="bad">gone</Badge>}</td>
            <td>{node.rack || <span className="dim">none</span>}</td>
            <td>{node.kafka}</td>
            <td>{node.http && <a href={`${location.protocol}//${node.http}/`}>{node.http}</a>}</td>
            <td className="number">{count(node.leads)}</td>
            <td className="number">{count(node.holds)}</td>
          </tr>
        ))}
      </Table>
    </Card>
  )
}

async function loadUnsettled(signal: AbortSignal): Promise<Unsettled[]> {
  const { topics } = await get<{ topics: TopicRow[] }>('v1/topics', signal)
  const details = await Promise.all(topics.slice(0, TOPICS_MAX).map((topic) => get<TopicDetail>(`v1/topics/${part(topic.name)}`, signal).catch(() => null)))
  return details.flatMap((topic) => (topic ? unsettled(topic) : []))
}

function Partitions() {
  const found = useLoad(loadUnsettled, 'unsettled', 8000)
  return (
    <Card title="Partitions that move, or have copies that are behind">
      <Loaded from={found} what="partitions">
        {(rows) =>
          rows.length === 0 ? (
            <p className="dim">None: nothing moves, and every copy is in sync.</p>
          ) : (
            <Table label="Partitions to watch" columns={['Partition', 'Leader', 'Copies', 'In sync', 'Moves']}>
              {rows.map((row) => (
                <tr key={`${row.topic}-${row.partition}`}>
                  <td>
                    <a href={link(['topics', row.topic], { tab: 'partitions' })}>
                      {row.topic}-{row.partition}
                    </a>
                  </td>
                  <td>{row.leader < 0 ? <Badge tone="bad">none</Badge> : row.leader}</td>
                  <td>{row.replicas.join(', ')}</td>
                  <td>{row.in_sync.join(', ')}</td>
                  <td>{row.move}</td>
                </tr>
              ))}
            </Table>
          )
        }
      </Loaded>
    </Card>
  )
}
