// Avro's binary form, read with a schema that somebody pastes: what a message browser needs, no more.

type Schema = string | Schema[] | { type: Schema; name?: string; namespace?: string; fields?: { name: string; type: Schema }[]; items?: Schema; values?: Schema; symbols?: string[]; size?: number }

export class NotAvro extends Error {}

const MAGIC = 0
const MAGIC_BYTES = 5
const DEPTH_MAX = 100

class Reader {
  private at = 0
  private readonly view: DataView
  private readonly named = new Map<string, Schema>()

  constructor(private readonly data: Uint8Array) {
    this.view = new DataView(data.buffer, data.byteOffset, data.byteLength)
  }

  get isAtEnd(): boolean {
    return this.at === this.data.length
  }

  private take(size: number): number {
    const from = this.at
    if (size < 0 || from + size > this.data.length) throw new NotAvro('the bytes end before the schema does')
    this.at += size
    return from
  }

  private bytes(size: number): Uint8Array {
    const from = this.take(size)
    return this.data.subarray(from, from + size)
  }

  /** A number of variable length, zigzag. */
  private long(): bigint {
    let [found, shift] = [0n, 0n]
    for (;;) {
      const byte = this.data[this.take(1)] ?? 0
      found |= BigInt(byte & 0x7f) << shift
      if (byte < 0x80) return (found >> 1n) ^ -(found & 1n)
      shift += 7n
      if (shift > 63n) throw new NotAvro('a number is too long')
    }
  }

  private size(): number {
    return Number(this.long())
  }

  /** Blocks of items, each with its number of them, up to an empty one. */
  private blocks(one: () => void): void {
    for (;;) {
      let number = this.size()
      if (number === 0) return
      if (number < 0) {
        number = -number
        this.long() // its size in bytes
      }
      if (number > this.data.length) throw new NotAvro('a block claims more items than there are bytes')
      for (let index = 0; index < number; index++) one()
    }
  }

  read(schema: Schema, depth = 0): unknown {
    if (depth > DEPTH_MAX) throw new NotAvro('the schema is too deep')
    if (Array.isArray(schema)) {
      const chosen = schema[this.size()]
      if (chosen === undefined) throw new NotAvro('a union has no such branch')
      return this.read(chosen, depth + 1)
    }
    if (typeof schema === 'object') {
      if (schema.name !== undefined) {
        this.named.set(schema.name, schema)
        if (schema.namespace !== undefined) this.named.set(`${schema.namespace}.${schema.name}`, schema)
      }
      return this.complex(schema, depth)
    }
    switch (schema) {
      case 'null':
        return null
      case 'boolean':
        return this.data[this.take(1)] === 1
      case 'int':
      case 'long': {
        const found = this.long()
        return Number.isSafeInteger(Number(found)) ? Number(found) : found.toString()
      }
      case 'float':
        return this.view.getFloat32(this.take(4), true)
      case 'double':
        return this.view.getFloat64(this.take(8), true)
      case 'string':
        return new TextDecoder().decode(this.bytes(this.size()))
      case 'bytes':
        return btoa(String.fromCharCode(...this.bytes(this.size())))
      default: {
        const known = this.named.get(schema)
        if (known === undefined) throw new NotAvro(`the schema does not say what ${schema} is`)
        return this.read(known, depth + 1)
      }
    }
  }

  private complex(schema: Exclude<Schema, string | Schema[]>, depth: number): unknown {
    switch (schema.type) {
      case 'record':
        return Object.fromEntries((schema.fields ?? []).map((field) => [field.name, this.read(field.type, depth + 1)]))
      case 'array': {
        const items: unknown[] = []
        this.blocks(() => items.push(this.read(schema.items ?? 'null', depth + 1)))
        return items
      }
      case 'map': {
        const found: Record<string, unknown> = {}
        this.blocks(() => {
          const key = this.read('string') as string
          found[key] = this.read(schema.values ?? 'null', depth + 1)
        })
        return found
      }
      case 'enum':
        return schema.symbols?.[this.size()] ?? null
      case 'fixed':
        return btoa(String.fromCharCode(...this.bytes(schema.size ?? 0)))
      default:
        return this.read(schema.type, depth + 1)
    }
  }
}

/** Read one value; five bytes of a schema registry before it are passed over. */
export function readAvro(data: Uint8Array, schema: string): unknown {
  let parsed: Schema
  try {
    parsed = JSON.parse(schema) as Schema
  } catch {
    throw new NotAvro('the schema is no JSON')
  }
  const starts = data[0] === MAGIC && data.length > MAGIC_BYTES ? [0, MAGIC_BYTES] : [0]
  let fault: unknown
  for (const start of starts) {
    const reader = new Reader(data.subarray(start))
    try {
      const found = reader.read(parsed)
      if (reader.isAtEnd) return found
      fault = new NotAvro('there are more bytes than the schema says')
    } catch (error) {
      if (!(error instanceof NotAvro)) throw error
      fault = error
    }
  }
  throw fault
}
