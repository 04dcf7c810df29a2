// Dead letters: where they come from, and how one is sent there again.
import type { Header, StoredRecord } from './model'

const ORIGIN = 'chordmq.origin.topic'
const REASON = 'chordmq.dead.reason'
const OURS = /^chordmq\.(origin|dead)\./

export interface DeadLetter {
  origin: string
  reason: string
}

export function isDeadLetterTopic(topic: string): boolean {
  return /\.(dlq|dead)$/.test(topic)
}

/** Where a record died and why; null if it is alive. */
export function readDeadLetter(topic: string, record: StoredRecord): DeadLetter | null {
  const text = (name: string): string | null => record.headers.find((header) => header.name === name)?.value ?? null
  const origin = text(ORIGIN) ?? (isDeadLetterTopic(topic) ? topic.replace(/\.[^.]+$/, '') : null)
  if (origin === null) return null
  return { origin, reason: text(REASON) ?? 'no reason given' }
}

/** The record as it was before it died, in the form in which it is published. */
export function revived(record: StoredRecord): object {
  const headers: Header[] = record.headers.filter((header) => !OURS.test(header.name))
  const { key, key_encoding, value, encoding } = record
  return { key, key_encoding, value, encoding, headers }
}
