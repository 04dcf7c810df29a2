import { expect, test } from 'vitest'
import { FilterFault, readFilter } from '../filter'
import type { StoredRecord } from '../model'

const RECORD: StoredRecord = {
  partition: 2,
  offset: 17,
  timestamp: 1000,
  key: 'oven 1',
  key_encoding: 'utf-8',
  value: '{"temp": 81.5, "place": {"hall": "B"}}',
  encoding: 'utf-8',
  headers: [{ name: 'source', value: 'plant-2' }],
}

test.each([
  ['', true],
  ['OVEN', true],
  ['fridge', false],
  ['!fridge', true],
  ['"oven 1"', true],
  ['key="oven 1"', true],
  ['key=oven', false],
  ['key~oven', true],
  ['value.temp>81', true],
  ['value.temp>100', false],
  ['value.temp>9', true],
  ['value.place.hall=B', true],
  ['value.none=1', false],
  ['header.source~plant', true],
  ['partition=2 offset>=17', true],
  ['partition=2 offset>17', false],
  ['key!=other', true],
])('%s', (text, fits) => {
  expect(readFilter(text)(RECORD)).toBe(fits)
})

test('a comparison with nothing is refused', () => {
  expect(() => readFilter('key=')).toThrow(FilterFault)
})
