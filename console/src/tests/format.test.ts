import { expect, test } from 'vitest'
import { bytes, duration, hex, meaning, toBytes } from '../format'

test('sizes and times are written for people', () => {
  expect([bytes(0), bytes(1536), bytes(5 * 1024 ** 3)]).toEqual(['0 B', '1.5 KiB', '5.0 GiB'])
  expect([duration(500), duration(61_000), duration(90_000_000)]).toEqual(['now', '1 min', '1 d 1 h'])
})

test('settings say what their numbers mean', () => {
  expect(meaning('retention.ms', '604800000')).toBe('7 d')
  expect(meaning('retention.bytes', '-1')).toBe('no limit')
  expect(meaning('cleanup.policy', 'delete')).toBe('')
})

test('bytes are shown as hex with what is readable beside it', () => {
  expect(hex(toBytes('AEFC', 'base64'))).toBe(`000000  00 41 42${' '.repeat(39)}  ·AB`)
})
