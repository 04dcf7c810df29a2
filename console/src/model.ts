// What the HTTP API answers; the same names as in /openapi.json.

export interface Info {
  version: string
  data_dir: string
  cluster_id?: string
  node_id?: number
  uptime_ms?: number
  [listener: string]: string | number | undefined
}
export interface TopicRow {
  name: string
  id: string
  partitions: number
  internal: boolean
}
export interface PartitionRow {
  partition: number
  leader: number
  replicas?: number[]
  in_sync?: number[]
  /** Nodes that are getting a copy, and those that lose theirs afterwards. */
  adding?: number[]
  removing?: number[]
  start_offset: number
  end_offset: number
  size_bytes: number
  /** Whether the node that answers has it. */
  held?: boolean
}
export interface TopicDetail {
  name: string
  id: string
  internal: boolean
  partitions: PartitionRow[]
  settings: Record<string, string>
}
export interface SettingRow {
  name: string
  value: string
  source: string
  help: string
}
export interface Header {
  name: string
  value: string | null
  encoding?: string
}
export type Encoding = 'utf-8' | 'base64' | 'json'
export interface StoredRecord {
  partition: number
  offset: number
  timestamp: number
  key: string | null
  key_encoding: Encoding
  value: string | null
  encoding: Encoding
  headers: Header[]
}
export interface ReadRecords {
  records: StoredRecord[]
  position: string
  end: string
}
export interface GroupRow {
  group: string
  state: string
  protocol_type: string
  members: number
}
export interface GroupDetail extends Omit<GroupRow, 'members'> {
  assignor: string
  members: {
    member_id: string
    instance_id: string | null
    client_id: string
    host: string
    partitions: { topic: string; partition: number }[]
  }[]
}
export interface Lag {
  group: string
  total_lag: number
  partitions: {
    topic: string
    partition: number
    committed: number
    start_offset: number
    end_offset: number
    lag: number
    member_id: string | null
  }[]
}
export interface Moved {
  group: string
  executed: boolean
  partitions: { topic: string; partition: number; from: number | null; to: number }[]
}
export interface NodeRow {
  id: number
  version: string
  controller: boolean
  live: boolean
  linked: boolean
  rack: string
  kafka: string
  http: string
  place: string
  leads: number
  holds: number
}
export interface RingView {
  member: boolean
  place: string
  predecessor: number | null
  successors: number[]
  fingers: number[]
  suspects: number[]
  lookups: number
  hops: number
}
export interface Cluster {
  id: string
  nodes: NodeRow[]
  topics: number
  partitions: number
  groups: number
  size_bytes: number
  ring: RingView | null
}
export interface ClientFacts {
  id: string
  name: string
  protocol: string
  user: string
  host: string
  connected_ms: number
  subscriptions: string[]
}
export interface ConsumerFacts {
  client: string
  name: string
  protocol: string
  user: string
  host: string
  topic: string
  group: string
  index: string
  credit: number
  unacknowledged: number
  delivered: number
  lag: number
  offsets: Record<string, number>
}
export interface KnownDevice {
  id: string
  model: string
  tags: Record<string, string>
  registered_ms: number
  seen_ms: number
  is_connected: boolean
  changed_ms: number
  node: number
  status: string
}
export interface Shadow {
  state: { desired: object; reported: object; delta: object }
  version: number
  timestamp: number
}
export interface Command {
  id: string
  device: string
  name: string
  parameters: unknown
  issued_by: string
  issued_ms: number
  state: string
  attempts: number
  result: unknown
  reason: string
}
export interface Queue {
  vhost: string
  name: string
  durable: boolean
  ready: number
  ready_bytes: number
  unacknowledged: number
  consumers: number
  delivered: number
  finished: number
}
export interface User {
  name: string
  admin: boolean
  mechanisms: string[]
  tokens: number
}
export interface Token {
  id: string
  label: string
  created_ms: number
  expires_ms: number | null
  token?: string
}
export interface Rule {
  kind: string
  name: string
  match: string
  principal: string
  host: string
  operation: string
  effect: string
  role: string
}
export interface Role {
  name: string
  permissions: { kind: string; name: string; match: string; operation: string }[]
  members: string[]
}
export interface Decision {
  is_allowed: boolean
  reason: string
  rule: Rule | null
}
export interface Quota {
  user?: string
  client?: string
  ip?: string
  limits: Record<string, number>
}
