// Partitions that are not as they should be yet: moving, behind, or without a leader.
import type { TopicDetail } from './model'

export interface Unsettled {
  topic: string
  partition: number
  leader: number
  replicas: number[]
  in_sync: number[]
  /** Where it goes, in words; empty while it stays. */
  move: string
}

export function unsettled(topic: TopicDetail): Unsettled[] {
  return topic.partitions
    .map(({ partition, leader, replicas = [], in_sync = [], adding = [], removing = [] }) => ({
      topic: topic.name,
      partition,
      leader,
      replicas,
      in_sync,
      move: [adding.length > 0 && `to ${adding.join(', ')}`, removing.length > 0 && `away from ${removing.join(', ')}`].filter(Boolean).join('; '),
    }))
    .filter((row) => row.leader < 0 || row.in_sync.length < row.replicas.length || row.move !== '')
}
