// The tree of parents and children, and what this node copies along it.
import { get } from '../api'
import { count } from '../format'
import { Loaded, useLoad } from '../loading'
import { Badge, Card, Empty, Page, Table } from '../parts'
import { layOut } from '../tree'

interface TreeMember {
  id: string
  url: string
  role: string
  parent: string | null
  labels: Record<string, string>
  alive: boolean
  health: string
  lag: number
}

interface Pipe {
  source: string
  topic: string
  partition: number
  health: string
  lag: number
  copied: number
  repeated: number
  error: string
}

interface Seen {
  version: number
  members: TreeMember[]
  node: string
  registry: boolean
  refusal: string
  pipes: Pipe[]
}

const COLUMN = 150
const ROW = 96

async function load(signal: AbortSignal): Promise<Seen> {
  const [tree, pipes] = await Promise.all([
    get<{ version: number; nodes: Record<string, TreeMember> }>('v1/topology', signal),
    get<{ node: string; registry: boolean; refusal: string; pipes: Pipe[] }>('v1/pipes', signal),
  ])
  return { ...pipes, version: tree.version, members: Object.values(tree.nodes) }
}

export function tone(health: string): 'good' | 'warn' | 'bad' {
  return health === 'HEALTHY' ? 'good' : health === 'DEGRADED' ? 'warn' : 'bad'
}

export function Topology() {
  const loaded = useLoad(load, 'topology', 4000)
  return (
    <Page title="Topology">
      <Loaded from={loaded} what="the tree of nodes">
        {(seen) =>
          seen.members.length === 0 ? (
            <Empty title="This node stands alone">
              <p>
                A node gets a parent when it is told where the registry is: <code>chordmq registry serve</code>, then <code>--set pipes.registry=…</code> on each node.
              </p>
            </Empty>
          ) : (
            <>
              {seen.refusal && <p className="notice bad">The registry does not take this node: {seen.refusal}</p>}
              {!seen.registry && <p className="notice warn">The registry does not answer; the tree is shown as it was.</p>}
              <Tree seen={seen} />
              <Pipes pipes={seen.pipes} />
            </>
          )
        }
      </Loaded>
    </Page>
  )
}

function Tree({ seen }: { seen: Seen }) {
  const placed = layOut(seen.members)
  const places = new Map(placed.map((one) => [one.id, one]))
  const width = (Math.max(...placed.map((one) => one.x)) + 1) * COLUMN
  const height = (Math.max(...placed.map((one) => one.y)) + 1) * ROW
  const middle = (id: string) => {
    const place = places.get(id)
    return place ? { x: place.x * COLUMN + COLUMN / 2, y: place.y * ROW + ROW / 2 } : undefined
  }
  return (
    <Card title={`${seen.members.length} nodes, version ${seen.version}`}>
      <div className="scroll" role="region" aria-label="Tree of nodes" tabIndex={0}>
        <svg className="tree" width={width} height={height} role="img" aria-label={`${seen.members.length} nodes below each other`}>
          {seen.members.map((member) => {
            const [from, to] = [member.parent === null ? undefined : middle(member.parent), middle(member.id)]
            return from && to && <path key={member.id} className={tone(member.health)} d={`M${from.x} ${from.y + 24} C${from.x} ${from.y + 60} ${to.x} ${to.y - 60} ${to.x} ${to.y - 24}`} />
          })}
          {seen.members.map((member) => {
            const at = middle(member.id)
            return (
              at && (
                <g key={member.id} className={member.alive ? tone(member.health) : 'bad'} transform={`translate(${at.x - COLUMN / 2 + 8} ${at.y - 24})`}>
                  <title>{`${member.id}: ${member.role}, ${member.alive ? member.health : 'dead'}, ${member.url}`}</title>
                  <rect width={COLUMN - 16} height={48} rx={8} />
                  <text x={(COLUMN - 16) / 2} y={20}>{member.id === seen.node ? `${member.id} (this)` : member.id}</text>
                  <text className="dim" x={(COLUMN - 16) / 2} y={38}>
                    {member.alive ? `${member.role} · ${count(member.lag)} behind` : `${member.role} · dead`}
                  </text>
                </g>
              )
            )
          })}
        </svg>
      </div>
    </Card>
  )
}

function Pipes({ pipes }: { pipes: Pipe[] }) {
  if (pipes.length === 0) return <Card title="Pipes">This node copies nothing.</Card>
  return (
    <Card title="What this node copies">
      <Table label="Pipes" columns={['From', 'Topic', '#Partition', 'Health', '#Behind', '#Copied', '#Repeated', 'Error']}>
        {pipes.map((pipe) => (
          <tr key={`${pipe.source}/${pipe.topic}/${pipe.partition}`}>
            <td>{pipe.source}</td>
            <td>{pipe.topic}</td>
            <td className="number">{pipe.partition}</td>
            <td>
              <Badge tone={tone(pipe.health)}>{pipe.health.toLowerCase()}</Badge>
            </td>
            <td className="number">{count(pipe.lag)}</td>
            <td className="number">{count(pipe.copied)}</td>
            <td className="number">{count(pipe.repeated)}</td>
            <td>{pipe.error}</td>
          </tr>
        ))}
      </Table>
    </Card>
  )
}
