// The filter of the message browser: words and comparisons, all of which must hold.
//
//   oven                     somewhere in key, value or headers
//   key=oven-1  key~oven     the key is, or contains
//   value.temp>80            a field of a JSON value, also a.b.c
//   header.source=plant-2    a header
//   partition=0  offset>=100
//   "two words"  !broken     quoted texts; with ! what must not hold
import { readJson } from './format'
import type { StoredRecord } from './model'

type Test = (record: StoredRecord) => boolean

export class FilterFault extends Error {}

const TERM = /!?(?:[^\s"]|"[^"]*")+/g
const COMPARISON = /^(key|value|header|partition|offset|time)((?:\.[^=<>~!]+)?)(>=|<=|!=|=|>|<|~)(.*)$/s

export function readFilter(text: string): Test {
  const tests = (text.match(TERM) ?? []).map(readTerm)
  return (record) => tests.every((test) => test(record))
}

function readTerm(term: string): Test {
  if (term.startsWith('!') && term.length > 1) {
    const test = readTerm(term.slice(1))
    return (record) => !test(record)
  }
  const plain = term.replaceAll('"', '')
  const found = term.startsWith('"') ? null : COMPARISON.exec(plain)
  if (!found) return (record) => contains(record, plain.toLowerCase())
  const [, what = '', path = '', operator = '', wanted = ''] = found
  if (wanted === '') throw new FilterFault(`${plain}: what to compare with is missing`)
  if (what === 'header' && path === '') throw new FilterFault('write header.name=value')
  return (record) => compare(field(record, what, path.slice(1)), operator, wanted)
}

function contains(record: StoredRecord, text: string): boolean {
  const places = [record.key, record.value, ...record.headers.flatMap((header) => [header.name, header.value])]
  return places.some((place) => place?.toLowerCase().includes(text))
}

function field(record: StoredRecord, what: string, path: string): unknown {
  switch (what) {
    case 'key':
      return record.key
    case 'partition':
      return record.partition
    case 'offset':
      return record.offset
    case 'time':
      return record.timestamp
    case 'header':
      return record.headers.find((header) => header.name === path)?.value
    default:
      return path === '' ? record.value : dig(readJson(record.value), path.split('.'))
  }
}

function dig(json: unknown, path: string[]): unknown {
  for (const step of path) {
    if (typeof json !== 'object' || json === null) return undefined
    json = (json as Record<string, unknown>)[step]
  }
  return json
}

function compare(found: unknown, operator: string, wanted: string): boolean {
  const text = found === null || found === undefined ? undefined : typeof found === 'object' ? JSON.stringify(found) : String(found)
  if (operator === '!=') return text !== wanted
  if (text === undefined) return wanted === 'null' && operator === '='
  if (operator === '~') return text.toLowerCase().includes(wanted.toLowerCase())
  const numbers = [Number(text), Number(wanted)] as const
  const isNumeric = text !== '' && numbers.every(Number.isFinite)
  if (operator === '=') return text === wanted || (isNumeric && numbers[0] === numbers[1])
  const order = isNumeric ? numbers[0] - numbers[1] : text < wanted ? -1 : text > wanted ? 1 : 0
  if (operator === '>') return order > 0
  if (operator === '<') return order < 0
  return operator === '>=' ? order >= 0 : order <= 0
}
