import { expect, test } from 'vitest'
import { alarms } from '../alarms'
import { readEvents } from '../api'
import { readDeadLetter, revived } from '../dead_letters'
import { isOwn, readReading, seen } from '../devices'
import { readMetrics } from '../metrics'
import type { NodeRow, StoredRecord } from '../model'
import { rates } from '../pages/pipeline'
import { newest } from '../records'
import { spots } from '../ring'
import { link, readPlace } from '../router'
import { addresses, quoted, readOne } from '../snippets'
import { layOut } from '../tree'
import { unsettled } from '../unsettled'

function record(fields: Partial<StoredRecord>): StoredRecord {
  return { partition: 0, offset: 0, timestamp: 1, key: null, key_encoding: 'utf-8', value: null, encoding: 'utf-8', headers: [], ...fields }
}

test('events are taken whole, however they arrive', () => {
  const { events, rest } = readEvents('id: 0:1\nevent: record\ndata: {"a":1}\n\n: beat\n\nid: 0:2\nda')
  expect(events).toEqual([{ id: '0:1', event: 'record', data: '{"a":1}' }])
  expect(rest).toBe('id: 0:2\nda')
})

test('places are links and links are places', () => {
  const place = readPlace(link(['topics', 'a/b c'], { tab: 'settings' }))
  expect(place.path).toEqual(['topics', 'a/b c'])
  expect(place.query.get('tab')).toBe('settings')
})

test('a dead letter goes back without what says that it died', () => {
  const letter = record({ value: 'x', headers: [{ name: 'chordmq.origin.topic', value: 'orders' }, { name: 'chordmq.dead.reason', value: 'bad' }, { name: 'kept', value: '1' }] })
  expect(readDeadLetter('other', letter)).toEqual({ origin: 'orders', reason: 'bad' })
  expect(readDeadLetter('orders.dlq', record({}))?.origin).toBe('orders')
  expect(readDeadLetter('orders', record({}))).toBeNull()
  expect(revived(letter)).toMatchObject({ value: 'x', headers: [{ name: 'kept', value: '1' }] })
})

test.each([
  ['21.5', 'temperature'],
  ['{"value": 21.5}', 'temperature'],
  ['{"temperature": 21.5}', 'temperature'],
  ['{"metadata": {}, "payload": {"value": 21.5}}', 'temperature'],
])('a device says %s', (value, metric) => {
  const said = record({ key: 'd7', value, headers: [{ name: 'chordmq.topic', value: 'iotsphere/devices/d7/telemetry/temperature' }] })
  expect(readReading(said)).toMatchObject({ device: 'd7', metric, value: 21.5 })
})

test.each([
  ['iotsphere/devices/d1/telemetry/a/b', true],
  ['iotsphere/devices/d1/commands/reboot/response', true],
  ['iotsphere/devices/d1/commands/reboot/request', false],
  ['iotsphere/devices/d1/shadow/update/delta', false],
  ['', true],
])('%s comes from the device: %s', (name, own) => {
  const said = record({ key: 'd1', value: '{"version": 3}', headers: name ? [{ name: 'chordmq.topic', value: name }] : [] })
  expect(isOwn(said)).toBe(own)
})

test('devices are seen even if they say no numbers', () => {
  const devices = seen(new Map(), [record({ key: 'd1', value: 'hello', timestamp: 5 }), record({ key: 'd1', value: '1', timestamp: 9 })])
  expect(devices.get('d1')).toMatchObject({ seen_ms: 9, messages: 2 })
})

test('each node owns the ring from the node before it', () => {
  const node = (id: number, place: string): NodeRow => ({ id, place, version: '', controller: false, live: true, linked: true, rack: '', kafka: '', http: '', leads: 0, holds: 0 })
  const shares = spots([node(1, 'c000000000000000'), node(2, '4000000000000000')])
  expect(shares.map(({ node: { id }, turn, share }) => [id, turn, share])).toEqual([[2, 0.25, 0.5], [1, 0.75, 0.5]])
  expect(spots([node(0, '')])[0]?.share).toBe(1)
})

test('alarms say what to do', () => {
  expect(alarms([], [], readMetrics('chordmq_disk_is_low 0.0'))).toEqual([])
  expect(alarms(['logs are being recovered'], [], readMetrics('chordmq_writes_refused 1.0'))).toHaveLength(2)
})

test('a query that goes back to an earlier place has no negative rate', () => {
  expect(rates([{ at_ms: 0, done: 10 }, { at_ms: 2000, done: 30 }, { at_ms: 4000, done: 5 }])).toEqual([10, 0])
})

test('the newest records are asked for in all partitions, also those of other nodes', () => {
  const row = { leader: 0, size_bytes: 0, start_offset: 5 }
  const partitions = [{ ...row, partition: 0, end_offset: 200 }, { ...row, partition: 1, end_offset: 7, held: false }]
  expect(newest(partitions, 100)).toEqual({ position: '0:100,1:5' })
})

test('commands can be pasted into a shell', () => {
  expect(quoted("it's")).toBe(`'it'\\''s'`)
  const at = addresses({ version: '', data_dir: '', kafka: '0.0.0.0:9092' }, 'http://node-1:8080', false)
  expect(readOne('orders', record({ partition: 2, offset: 9 }), at).kcat).toBe('kcat -b node-1:9092 -C -t orders -p 2 -o 9 -c 1')
})

test('parents stand above the middle of their children, and strays at the top', () => {
  const at = new Map(
    layOut([
      { id: 'root', parent: null },
      { id: 'b', parent: 'root' },
      { id: 'a', parent: 'root' },
      { id: 'leaf', parent: 'a' },
      { id: 'stray', parent: 'gone' },
    ]).map(({ id, x, y }) => [id, [x, y]]),
  )
  expect(at.get('leaf')).toEqual([0, 2])
  expect(at.get('a')).toEqual([0, 1])
  expect(at.get('b')).toEqual([1, 1])
  expect(at.get('root')).toEqual([0.5, 0])
  expect(at.get('stray')).toEqual([2, 0])
})

test('partitions that move, are behind or have no leader are to be watched', () => {
  const settled = { partition: 0, leader: 1, replicas: [1, 2], in_sync: [2, 1], start_offset: 0, end_offset: 0, size_bytes: 0 }
  const partitions = [
    settled,
    { ...settled, partition: 1, in_sync: [1] },
    { ...settled, partition: 2, leader: -1 },
    { ...settled, partition: 3, replicas: [1, 3, 2], in_sync: [1, 2, 3], adding: [3], removing: [2] },
  ]
  const found = unsettled({ name: 'orders', id: 'x', internal: false, partitions, settings: {} })
  expect(found.map((row) => [row.partition, row.move])).toEqual([
    [1, ''],
    [2, ''],
    [3, 'to 3; away from 2'],
  ])
})
