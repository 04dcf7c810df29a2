// What devices say, taken out of the records of the topic that they speak in.
import { readJson } from './format'
import type { StoredRecord } from './model'

export interface Reading {
  device: string
  metric: string
  value: number
  at_ms: number
}

export interface Device {
  id: string
  seen_ms: number
  messages: number
  metrics: Map<string, number[]>
}

export const DEVICES_TOPIC = 'iotsphere.devices'
export const SYSTEM_TOPIC = 'iotsphere.system'
const POINTS_MAX = 60

/** The name under which a message was published, such as `iotsphere/devices/d7/telemetry/temperature`. */
export function nameOf(record: StoredRecord): string {
  return record.headers.find((header) => header.name === 'chordmq.topic')?.value ?? ''
}

/** Whether the device itself says it, not a client or the node about the device. */
export function isOwn(record: StoredRecord): boolean {
  return /^([^/]*|[^/]+\/[^/]+\/[^/]+(\/(telemetry|events|status)(\/.*)?|\/commands\/.+\/response)?)$/.test(nameOf(record))
}

export function readReading(record: StoredRecord): Reading | null {
  const levels = nameOf(record).split('/')
  const device = record.key ?? levels[2]
  if (!device || (levels[3] !== undefined && levels[3] !== 'telemetry')) return null
  const metric = levels.slice(4).join('/')
  const json = readJson(record.value)
  const found = numberIn(payload(json), metric)
  return found === null ? null : { device, metric: found.metric || 'value', value: found.value, at_ms: record.timestamp }
}

function payload(json: unknown): unknown {
  if (typeof json === 'object' && json !== null && 'metadata' in json && 'payload' in json) return json.payload
  return json
}

function numberIn(json: unknown, metric: string): { metric: string; value: number } | null {
  if (typeof json === 'number') return { metric, value: json }
  if (typeof json !== 'object' || json === null) return null
  const fields = json as Record<string, unknown>
  for (const name of ['value', metric]) {
    const value = fields[name]
    if (name && typeof value === 'number') return { metric: metric || String(fields.metric ?? name), value }
  }
  for (const [name, value] of Object.entries(fields)) if (typeof value === 'number' && name !== 'timestamp') return { metric: name, value }
  return null
}

/** Take more records into the picture of all devices; returns a new one. */
export function seen(devices: Map<string, Device>, records: StoredRecord[]): Map<string, Device> {
  const next = new Map(devices)
  for (const record of records) {
    const id = record.key ?? nameOf(record).split('/')[2]
    if (!id || !isOwn(record)) continue
    const before = next.get(id)
    const metrics = new Map(before?.metrics)
    const reading = readReading(record)
    if (reading) metrics.set(reading.metric, [...(metrics.get(reading.metric) ?? []), reading.value].slice(-POINTS_MAX))
    next.set(id, { id, seen_ms: Math.max(before?.seen_ms ?? 0, record.timestamp), messages: (before?.messages ?? 0) + 1, metrics })
  }
  return next
}
