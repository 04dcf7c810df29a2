// Reading records: from a place on, the newest ones, and live.
import { useEffect, useRef, useState } from 'react'
import { follow, get, part } from './api'
import type { PartitionRow, ReadRecords, StoredRecord, TopicDetail } from './model'

export type Start =
  | { from: 'newest' }
  | { from: 'earliest' }
  | { from: 'offset'; partition: number; offset: number }
  | { from: 'time'; at_ms: number }

const PARTITIONS_MAX = 100

/** The partitions that are read: no more than a node reads at once, wherever they are. */
export function readable(partitions: PartitionRow[]): PartitionRow[] {
  return partitions.slice(0, PARTITIONS_MAX)
}

/** Those partitions as the API wants them named; nothing if they are all. */
export function chosen(partitions: PartitionRow[]): Record<string, string> {
  const rows = readable(partitions)
  return rows.length === partitions.length ? {} : { partition: rows.map((row) => row.partition).join(',') }
}

/** The position from which the newest records of each partition follow. */
export function newest(partitions: PartitionRow[], wanted: number): Record<string, string> {
  const places = readable(partitions).map((row) => `${row.partition}:${Math.max(row.start_offset, row.end_offset - wanted)}`)
  return { ...chosen(partitions), position: places.join(',') }
}

/** Where a page of records begins, as the query of the API. */
export function place(start: Start, topic: TopicDetail, wanted: number): Record<string, string> {
  switch (start.from) {
    case 'newest':
      return newest(topic.partitions, wanted)
    case 'earliest':
      return { ...chosen(topic.partitions), position: 'earliest' }
    case 'offset':
      return { partition: String(start.partition), offset: String(start.offset) }
    case 'time':
      return { ...chosen(topic.partitions), timestamp: String(start.at_ms) }
  }
}

export async function read(topic: string, query: Record<string, string>, max: number, signal?: AbortSignal): Promise<ReadRecords> {
  const asked = new URLSearchParams({ ...query, max_records: String(max) })
  return get(`v1/topics/${part(topic)}/records?${asked}`, signal)
}

/** The newest records of a topic over all partitions, oldest first. */
export async function readNewest(topic: string, wanted: number, signal?: AbortSignal): Promise<StoredRecord[]> {
  const detail = await get<TopicDetail>(`v1/topics/${part(topic)}`, signal)
  const found = await read(topic, newest(detail.partitions, wanted), Math.min(wanted * Math.max(detail.partitions.length, 1), 5000), signal)
  return inTime(found.records).slice(-wanted)
}

export function inTime(records: StoredRecord[]): StoredRecord[] {
  return [...records].sort((one, other) => one.timestamp - other.timestamp || one.partition - other.partition || one.offset - other.offset)
}

/** Follow a topic while a component is there; records come in bundles, at most a few times a second. */
export function useTail(topic: string | null, onRecords: (records: StoredRecord[]) => void, partition = ''): { state: 'off' | 'live' | 'lost'; fault: string } {
  const [state, setState] = useState<'off' | 'live' | 'lost'>('off')
  const [fault, setFault] = useState('')
  const listener = useRef(onRecords)
  listener.current = onRecords
  useEffect(() => {
    setFault('')
    if (topic === null) {
      setState('off')
      return
    }
    const ending = new AbortController()
    let waiting: StoredRecord[] = []
    const timer = setInterval(() => {
      if (waiting.length > 0) listener.current(waiting)
      waiting = []
    }, 200)
    follow(`v1/topics/${part(topic)}/stream?position=latest${partition && `&partition=${partition}`}`, ending.signal, {
      state: setState,
      events: (events) => {
        for (const event of events) if (event.event === 'record') waiting.push(JSON.parse(event.data) as StoredRecord)
      },
    }).catch((error: unknown) => {
      setState('off')
      setFault(error instanceof Error ? error.message : String(error))
    })
    return () => {
      ending.abort()
      clearInterval(timer)
    }
  }, [topic, partition])
  return { state, fault }
}
