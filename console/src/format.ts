// How numbers, times and bytes are written.
import type { Encoding } from './model'

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB']
const HEX_ROW = 16
const HEX_BYTES_MAX = 4096

export function bytes(size: number): string {
  let unit = 0
  for (; size >= 1024 && unit < UNITS.length - 1; unit++) size /= 1024
  return `${unit === 0 || size >= 100 ? Math.round(size) : size.toFixed(1)} ${UNITS[unit]}`
}

export function count(number: number): string {
  return Math.round(number).toLocaleString('en')
}

export function perSecond(number: number): string {
  return number >= 100 ? count(number) : number.toFixed(number >= 10 || number === 0 ? 0 : 1)
}

export function time(ms: number): string {
  if (ms < 0) return 'no time'
  const date = new Date(ms)
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`
  const clock = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`
  return `${day} ${clock}.${String(date.getMilliseconds()).padStart(3, '0')}`
}

function two(number: number): string {
  return String(number).padStart(2, '0')
}

export function duration(ms: number): string {
  const seconds = Math.floor(ms / 1000)
  if (seconds < 1) return 'now'
  if (seconds < 60) return `${seconds} s`
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`
  return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`
}

/** A setting in words where its unit is in its name: `retention.ms` 604800000 is 7 d. */
export function meaning(name: string, value: string): string {
  const number = Number(value)
  if (value === '' || !Number.isFinite(number)) return ''
  if (number === -1 && /\.(ms|bytes)$/.test(name)) return 'no limit'
  if (number > 9e18) return 'never'
  if (name.endsWith('.ms') && number >= 1000) return duration(number).replace(/ 0 (h|min)$/, '')
  if (name.endsWith('.bytes') && number >= 1024) return bytes(number)
  return ''
}

/** The bytes that a text of the API stands for. */
export function toBytes(text: string | null, encoding: Encoding): Uint8Array {
  if (text === null) return new Uint8Array()
  if (encoding === 'base64') return Uint8Array.from(atob(text), (char) => char.charCodeAt(0))
  return new TextEncoder().encode(text)
}

export function hex(data: Uint8Array): string {
  const rows: string[] = []
  for (let at = 0; at < Math.min(data.length, HEX_BYTES_MAX); at += HEX_ROW) {
    const row = Array.from(data.slice(at, at + HEX_ROW))
    const digits = row.map((byte) => byte.toString(16).padStart(2, '0')).join(' ')
    const chars = row.map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : '·')).join('')
    rows.push(`${at.toString(16).padStart(6, '0')}  ${digits.padEnd(HEX_ROW * 3 - 1)}  ${chars}`)
  }
  if (data.length > HEX_BYTES_MAX) rows.push(`… ${count(data.length - HEX_BYTES_MAX)} bytes more`)
  return rows.join('\n')
}

/** The JSON that a text is; undefined if it is none. */
export function readJson(text: string | null): unknown {
  if (text === null) return undefined
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}
