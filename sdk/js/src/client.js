/** A client of the node: what it is asked while there is no connection is done when there is one. */
import { toBase64, toBytes } from "./bytes.js"
import { Connection } from "./connection.js"
import { Closed, Conflict, NotConnected, Refused, TimedOut } from "./errors.js"
import { ID_HEADER } from "./message.js"
import { matches } from "./names.js"
import { Outbox } from "./outbox.js"
import { MemoryStore } from "./stores/memory.js"
import { Subscription } from "./subscription.js"

const CREDIT = 1_000
const LAST_VALUES_MAX = 10_000
const TIMEOUT_MS = 10_000

export class Client extends EventTarget {
  #connection
  #outbox
  #subscriptions = new Map()
  #numbers = 0
  #last = new Map()
  #encryption
  #answers = new Map()
  #answering = new Map()
  #isClosed = false
  #opening
  #ready

  constructor(url, { token, clientId = crypto.randomUUID(), store = new MemoryStore(), encryption, backoff, onConflict } = {}) {
    super()
    this.clientId = clientId
    this.store = store
    this.onConflict = onConflict
    this.#encryption = encryption
    this.#outbox = new Outbox(store, (message) => this.tell(message))
    this.#connection = new Connection(url, {
      token,
      clientId,
      backoff,
      heard: (told) => this.#hear(told),
      changed: (state, error) => this.#change(state, error),
    })
  }

  /** Open the store and begin to connect; resolves with the first connection, rejects if the login is refused. */
  async connect() {
    this.#ready = this.#load()
    await this.#ready
    const opened = new Promise((resolve, reject) => (this.#opening = { resolve, reject }))
    this.#connection.open()
    await opened
    return this
  }

  async #load() {
    await this.store.open()
    await this.#outbox.load((id, error, place) => this.#emit("synchronised", { id, error, place }))
  }

  /** Wait until the store is open; throw if the client is not to be used yet, or any more. */
  async #usable() {
    if (this.#isClosed) throw new Closed("the client was closed")
    if (!this.#ready) throw new NotConnected("call connect() or start() first")
    await this.#ready
  }

  /** As `connect`, but return at once: everything is queued until there is a connection. */
  start() {
    this.connect().catch((error) => this.#emit("error", { error }))
    return this
  }

  get isClosed() {
    return this.#isClosed
  }

  get isConnected() {
    return this.#connection.isOpen
  }

  /** Return how many messages the node has not acknowledged yet. */
  get queued() {
    return this.#outbox.size
  }

  /** End; what the node has not acknowledged stays in the store. */
  async close() {
    this.#isClosed = true
    this.#connection.close()
    this.#outbox.close()
    for (const [, answer] of this.#answers) answer.reject(new Closed("the client was closed"))
    this.#answers.clear()
    await this.store.close()
  }

  /** Act as if the network had gone for a moment. */
  dropConnection() {
    this.#connection.drop()
  }

  /**
   * Publish under a name; resolves with its place when the node has stored it. A value is a text,
   * bytes, or anything that JSON can hold.
   */
  async publish(name, value, { key = null, headers = {}, id = crypto.randomUUID(), timestamp, queue = true } = {}) {
    await this.#usable()
    if (!queue && !this.isConnected) throw new NotConnected("there is no connection")
    let message = { name, key: toBytes(key), value: toBytes(value), headers: pairs(headers) }
    message.headers = [...message.headers, [ID_HEADER, toBytes(id)]]
    if (this.#encryption) message = { name, ...(await this.#encryption.seal(message)) }
    return this.#outbox.add(id, frame(message, timestamp))
  }

  /**
   * Have a function called with every message that a filter matches, one after the other. With a
   * `name` it goes on after a reload where it was; with a `group` it shares the messages with others.
   */
  async subscribe(filter, handler, options = {}) {
    await this.#usable()
    this.#numbers += 1
    const encoding = this.#encryption ? "base64" : "auto"
    const subscription = new Subscription(this, this.#numbers, filter, handler, { credit: CREDIT, encoding, ...options })
    await subscription.load(this.store)
    this.#subscriptions.set(subscription.id, subscription)
    if (this.isConnected) await subscription.open()
    return subscription.opened
  }

  /** Return the last message under a name that a subscription has got; undefined if none has. */
  last(name) {
    return this.#last.get(name)
  }

  /** Return the last messages under all names that a filter matches. */
  lastOf(filter) {
    return [...this.#last.values()].filter((message) => matches(filter, message.name))
  }

  /** Ask whoever answers under a name; resolves with the answer's message. */
  async request(name, value, { timeoutMs = TIMEOUT_MS, headers = {}, ...options } = {}) {
    const replies = `replies/clients/${this.clientId}`
    await this.#listen(replies, (message) => this.#answer(message.header("correlation-data"), message))
    const id = crypto.randomUUID()
    const answer = this.#expect(id, timeoutMs)
    const asking = { ...headers, "response-topic": replies, "correlation-data": id }
    this.publish(name, value, { ...options, headers: asking, id }).catch((error) => this.#answers.get(id)?.reject(error))
    return answer
  }

  /** Answer what is asked under the names of a filter with what a function returns. */
  async respond(filter, handler, options = {}) {
    return this.subscribe(filter, async (message) => {
      const replies = message.header("response-topic")
      const value = await handler(message)
      const correlation = message.header("correlation-data")
      if (replies && correlation) await this.publish(replies, value, { headers: { "correlation-data": correlation } })
    }, options)
  }

  /**
   * Change the shadow of a device. With a `baseVersion` it is refused if a field has changed since;
   * then `onConflict` is asked, and may return another change, or nothing to give up.
   */
  async updateShadow(device, state, { shadow = "", baseVersion, timeoutMs = TIMEOUT_MS } = {}) {
    const path = shadow ? `shadow/name/${shadow}/update` : "shadow/update"
    const name = `iotsphere/devices/${device}/${path}`
    await this.#listen(`${name}/+`, (message) => this.#answer(message.json?.metadata?.correlationId, message))
    const payload = { state }
    if (baseVersion !== undefined) payload.base_version = baseVersion
    const answer = await this.#tellDevice(name, payload, timeoutMs)
    const told = answer.json.payload
    if (answer.name.endsWith("/accepted")) return told
    if (told.error !== "StaleVersion") throw new Refused(told.error, told.message)
    const next = await this.onConflict?.({ device, shadow, state }, { state: told.state, version: told.version })
    if (!next) throw new Conflict(told.message, { state: told.state, version: told.version })
    return this.updateShadow(device, next, { shadow, baseVersion: told.version, timeoutMs })
  }

  /** Have a device do something; resolves with the command when it has ended, well or not. */
  async command(device, name, parameters, { id = crypto.randomUUID(), timeoutMs = 60_000 } = {}) {
    const path = `iotsphere/devices/${device}/commands/${name}`
    const heard = (message) => {
      const { metadata, payload } = message.json
      if (message.name.endsWith("/rejected") || ["succeeded", "failed", "expired", "cancelled"].includes(payload.state)) {
        this.#answer(metadata.correlationId, message)
      }
    }
    await this.#listen(`${path}/status`, heard)
    await this.#listen(`${path}/issue/rejected`, heard)
    const payload = { id, parameters, timeout_ms: timeoutMs }
    const told = (await this.#tellDevice(`${path}/issue`, payload, timeoutMs + TIMEOUT_MS, id)).json.payload
    if (told.error) throw new Refused(told.error, told.message)
    return told
  }

  /** Send a message if there is a connection; return whether there was one. */
  tell(message) {
    if (!this.isConnected) return false
    this.#connection.send(message)
    return true
  }

  /** Return whether values are encrypted end to end. */
  get encrypts() {
    return this.#encryption !== undefined
  }

  /** Decrypt a message that has come. */
  async decrypt(message) {
    await this.#encryption.open(message, toBytes(message.key))
  }

  /** Keep the last message of each name. */
  remember(message) {
    this.#last.delete(message.name)
    this.#last.set(message.name, message)
    if (this.#last.size > LAST_VALUES_MAX) this.#last.delete(this.#last.keys().next().value)
  }

  /** Forget a subscription. */
  forget(subscription) {
    if (this.#subscriptions.delete(subscription.id)) this.tell({ type: "unsubscribe", id: subscription.id })
  }

  async #tellDevice(name, payload, timeoutMs, id = crypto.randomUUID()) {
    const metadata = { messageId: id, timestamp: new Date().toISOString(), topic: name, source: this.clientId }
    const envelope = { metadata: { ...metadata, messageType: "command", version: "1.0" }, payload }
    const answer = this.#expect(id, timeoutMs)
    this.publish(name, envelope, { id }).catch((error) => this.#answers.get(id)?.reject(error))
    return answer
  }

  /** Subscribe once for answers that come under a name. */
  async #listen(filter, handler) {
    if (!this.#answering.has(filter)) this.#answering.set(filter, this.subscribe(filter, handler))
    await this.#answering.get(filter)
  }

  #expect(id, timeoutMs) {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new TimedOut(`no answer within ${timeoutMs} ms`)), timeoutMs)
      const end = (settle) => (value) => {
        clearTimeout(timer)
        this.#answers.delete(id)
        settle(value)
      }
      this.#answers.set(id, { resolve: end(resolve), reject: end(reject) })
    })
  }

  #answer(id, message) {
    this.#answers.get(id)?.resolve(message)
  }

  #hear(told) {
    if (told.type === "welcome") {
      this.#opening?.resolve()
      this.#synchronise()
    } else if (typeof told.id === "number") {
      this.#subscriptions.get(told.id)?.hear(told)
    } else {
      this.#outbox.hear(told).catch((error) => this.#emit("error", { error }))
    }
  }

  /** Go on with all subscriptions, and then send what has waited, in its order. */
  async #synchronise() {
    await Promise.all([...this.#subscriptions.values()].map((one) => one.open()))
    this.#outbox.reset()
    this.#outbox.pump()
  }

  #change(state, error) {
    if (state === "disconnected") this.#outbox.reset()
    if (error instanceof Refused) {
      this.#opening?.reject(error)
      this.#connection.close()
    }
    this.#emit("state", { state, error })
  }

  #emit(type, detail) {
    this.dispatchEvent(Object.assign(new Event(type), { detail }))
  }
}

function pairs(headers) {
  const found = Array.isArray(headers) ? headers : Object.entries(headers)
  return found.map(([name, value]) => [name, toBytes(value)])
}

/** Return a message as the gateway takes it. */
function frame({ name, key, value, headers }, timestamp) {
  const told = { type: "publish", topic: name, encoding: "base64", key_encoding: "base64" }
  told.value = value === null ? null : toBase64(value)
  told.key = key === null ? null : toBase64(key)
  told.headers = headers.map(([one, bytes]) => ({ name: one, value: bytes === null ? null : toBase64(bytes), encoding: "base64" }))
  if (timestamp !== undefined) told.timestamp = timestamp
  return told
}
