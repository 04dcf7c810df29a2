// Assertions and names that both JavaScript clients use; run as: node <client>.mjs <bootstrap> <prefix> <check>
import { deepStrictEqual, strictEqual } from 'node:assert'

export const [bootstrap, prefix, wanted] = process.argv.slice(2)
// An hour ago: young enough for every retention.
export const FIRST_TIME_MS = Date.now() - 3_600_000

export const value = (index) => `value-${index}-${'abcdefghij'.repeat(10)}`

// Checks that `records` ({ key, value, index } as strings) are exactly numbers 0 to count - 1, in this order.
export function sameRecords (records, count) {
  strictEqual(records.length, count)
  records.forEach((record, index) => {
    deepStrictEqual(record, { key: `key-${index}`, value: value(index), index: `${index}` })
  })
}

export async function run (checks) {
  if (!(wanted in checks)) throw new Error(`no such check: ${wanted}`)
  await checks[wanted]()
}

export async function within (ms, what, promise) {
  let timer
  const late = new Promise((resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} took more than ${ms} ms`)), ms)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}
