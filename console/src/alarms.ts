// What an operator should look at now.
import { quantile, type Sample, total } from './metrics'
import type { NodeRow } from './model'
import { bytes, count } from './format'

const LOOP_LAG_S_MAX = 0.5

export function alarms(reasons: string[], nodes: NodeRow[], samples: Sample[]): string[] {
  const found = reasons.map((reason) => `The node is not ready: ${reason}.`)
  for (const node of nodes) if (!node.live) found.push(`Node ${node.id} is gone.`)
  for (const node of nodes) if (node.live && !node.linked) found.push(`Node ${node.id} lives, but this node cannot reach it.`)
  const value = (name: string): number => total(samples, name) ?? 0
  if (value('chordmq_writes_refused') > 0) found.push('The disk is full: writes are refused, reads go on. Shorten retention or add room.')
  else if (value('chordmq_disk_is_low') > 0) found.push(`Room on the disk is short: ${bytes(value('chordmq_disk_free_bytes'))} left.`)
  if (value('chordmq_log_corruptions') > 0) found.push(`${count(value('chordmq_log_corruptions'))} places on disk have a wrong checksum; the node's log says which.`)
  if (value('chordmq_audit_dropped_total') > 0) found.push(`The audit trail had no room for ${count(value('chordmq_audit_dropped_total'))} events.`)
  const refused = value('chordmq_connections_refused_total')
  if (refused > 0) found.push(`${count(refused)} connections were refused because a limit was reached.`)
  const lag = quantile(samples, 'chordmq_loop_lag_seconds', 0.99)
  if (lag !== null && lag > LOOP_LAG_S_MAX) found.push(`The event loop is often ${lag} s late: the machine is too busy.`)
  return found
}
