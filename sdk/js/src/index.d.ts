/** ChordMQ for browsers and Node. */

export type Value = string | Uint8Array | object | number | boolean | null
export type Headers = Record<string, Value> | [string, Value][]

export interface Place {
  topic: string
  partition: number
  offset: number
}

export interface Entry {
  id: string
  frame: object
}

/** Keeps messages that the node has not acknowledged, and positions, over reloads. */
export interface Store {
  open(): Promise<void>
  close(): Promise<void>
  entries(): Promise<Entry[]>
  put(entry: Entry): Promise<void>
  remove(id: string): Promise<void>
  get(name: string): Promise<unknown>
  set(name: string, value: unknown): Promise<void>
}

export class MemoryStore implements Store {
  open(): Promise<void>
  close(): Promise<void>
  entries(): Promise<Entry[]>
  put(entry: Entry): Promise<void>
  remove(id: string): Promise<void>
  get(name: string): Promise<unknown>
  set(name: string, value: unknown): Promise<void>
}

export class IndexedDbStore extends MemoryStore {
  constructor(name?: string)
}

export class Encryption {
  constructor(ring: string | object, options?: { acceptsPlain?: boolean })
}

export interface BackoffOptions {
  firstMs?: number
  mostMs?: number
  random?: () => number
}

export class Backoff {
  constructor(options?: BackoffOptions)
  next(): number
  reset(): void
}

export interface Message {
  readonly id: string
  readonly name: string
  readonly topic: string
  readonly partition: number
  readonly offset: number
  readonly timestamp: number
  readonly key: string | Uint8Array | null
  readonly headers: [string, Uint8Array | null][]
  readonly bytes: Uint8Array | null
  readonly text: string | null
  readonly json: any
  readonly deliveries: number
  header(name: string): string | null
}

export interface Subscription {
  readonly id: number
  readonly filter: string
  close(): void
  /** Resolves when all that has come is processed, and its place kept. */
  settled(): Promise<void>
}

export interface SubscribeOptions {
  /** Where to begin if there is no place to go on from. */
  start?: "latest" | "earliest" | { timestamp: number } | { partition: number; offset: number }
  /** Keeps the place in the store under this name. */
  name?: string
  /** Shares one index with all who name the same group. */
  group?: string
  /** How many messages may be under way. */
  credit?: number
  onGap?: (told: object) => void
  onError?: (error: Error) => void
}

export interface PublishOptions {
  key?: string | Uint8Array | null
  headers?: Headers
  id?: string
  timestamp?: number
  /** Whether it waits while there is no connection (true), or fails with NotConnected. */
  queue?: boolean
}

export interface ShadowState {
  desired?: object | null
  reported?: object | null
}

export interface ShadowUpdate {
  device: string
  shadow: string
  state: ShadowState
}

export interface ShadowNow {
  state: ShadowState
  version: number
}

export interface ClientOptions {
  token?: string | (() => string | Promise<string>)
  clientId?: string
  store?: Store
  encryption?: Encryption
  backoff?: BackoffOptions
  /** Called when a shadow has changed meanwhile; returns another change, or nothing to give up. */
  onConflict?: (update: ShadowUpdate, now: ShadowNow) => ShadowState | undefined | null | Promise<ShadowState | undefined | null>
}

/** Events: `state` {state, error}, `synchronised` {id, error, place}, `error` {error}; all in `detail`. */
export class Client extends EventTarget {
  readonly clientId: string
  readonly isConnected: boolean
  readonly queued: number
  constructor(url: string, options?: ClientOptions)
  connect(): Promise<this>
  start(): this
  close(): Promise<void>
  dropConnection(): void
  publish(name: string, value: Value, options?: PublishOptions): Promise<Place>
  subscribe(filter: string, handler: (message: Message) => void | Promise<void>, options?: SubscribeOptions): Promise<Subscription>
  last(name: string): Message | undefined
  lastOf(filter: string): Message[]
  request(name: string, value: Value, options?: PublishOptions & { timeoutMs?: number }): Promise<Message>
  respond(filter: string, handler: (message: Message) => Value | Promise<Value>, options?: SubscribeOptions): Promise<Subscription>
  updateShadow(device: string, state: ShadowState, options?: { shadow?: string; baseVersion?: number; timeoutMs?: number }): Promise<any>
  command(device: string, name: string, parameters?: unknown, options?: { id?: string; timeoutMs?: number }): Promise<any>
}

export class ChordMQError extends Error {}
export class NotConnected extends ChordMQError {}
export class Closed extends ChordMQError {}
export class TimedOut extends ChordMQError {}
export class CannotDecrypt extends ChordMQError {}
export class Refused extends ChordMQError {
  readonly fault: string
}
export class Conflict extends ChordMQError {
  readonly current: ShadowNow
}

export function matches(filter: string, name: string): boolean
