import { expect, test } from 'vitest'
import { NotAvro, readAvro } from '../avro'

const ORDER = JSON.stringify({
  type: 'record',
  name: 'Order',
  namespace: 'shop',
  fields: [
    { name: 'id', type: 'long' },
    { name: 'name', type: ['null', 'string'] },
    { name: 'tags', type: { type: 'array', items: 'string' } },
    { name: 'prices', type: { type: 'map', values: 'double' } },
    { name: 'state', type: { type: 'enum', name: 'State', symbols: ['NEW', 'PAID'] } },
    { name: 'next', type: ['null', 'shop.Order'] },
  ],
})
const EMPTY_TAIL = [0, 0, 2, 0] // no tags, no prices, PAID, no next one

test('a record is read with unions, arrays, maps, enums and itself', () => {
  const half = [0, 0, 0, 0, 0, 0, 0xe0, 0x3f]
  const inner = [0x01, 0x00, ...EMPTY_TAIL]
  const data = Uint8Array.from([0x54, 2, 4, 0x68, 0x69, 4, 2, 0x61, 2, 0x62, 0, 2, 2, 0x78, ...half, 0, 0, 2, ...inner])
  expect(readAvro(data, ORDER)).toEqual({
    id: 42,
    name: 'hi',
    tags: ['a', 'b'],
    prices: { x: 0.5 },
    state: 'NEW',
    next: { id: -1, name: null, tags: [], prices: {}, state: 'PAID', next: null },
  })
})

test('the head of a schema registry is passed over', () => {
  expect(readAvro(Uint8Array.from([0, 0, 0, 0, 7, 6, 0x61, 0x62, 0x63]), '"string"')).toBe('abc')
  expect(readAvro(Uint8Array.from([0]), '"long"')).toBe(0)
})

test('numbers keep all their digits', () => {
  expect(readAvro(Uint8Array.from([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]), '"long"')).toBe('-9223372036854775808')
})

test('what is no Avro is refused, and costs nothing', () => {
  for (const bytes of [[], [0x80], [0xfe, 0xff, 0xff, 0xff, 0x0f], [2]]) expect(() => readAvro(Uint8Array.from(bytes), '"string"')).toThrow(NotAvro)
  expect(() => readAvro(Uint8Array.from([0xfe, 0xff, 0xff, 0x7f]), '{"type": "array", "items": "null"}')).toThrow(NotAvro)
  expect(() => readAvro(Uint8Array.from([1]), '{"type": "record", "name": "A", "fields": [{"name": "a", "type": "A"}]}')).toThrow(NotAvro)
  expect(() => readAvro(Uint8Array.from([1]), 'string')).toThrow('no JSON')
  expect(() => readAvro(Uint8Array.from([1]), '"Unknown"')).toThrow('Unknown')
})
