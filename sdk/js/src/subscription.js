/** One subscription: messages one after the other, each once, and where to go on after a break. */
import { Refused } from "./errors.js"
import { Message } from "./message.js"

const IDS_KEPT = 10_000

export class Subscription {
  #client
  #handler
  #options
  #positions = null
  #seen = new Set()
  #working = Promise.resolve()
  #generation = 0
  #opened

  constructor(client, id, filter, handler, options) {
    this.#client = client
    this.id = id
    this.filter = filter
    this.#handler = handler
    this.#options = options
    this.opened = new Promise((resolve, reject) => (this.#opened = { resolve, reject }))
    this.opened.catch(() => {})
  }

  get #place() {
    return this.#options.name ? `positions ${this.#options.name}` : null
  }

  /** Find where an earlier run of the program has stopped. */
  async load(store) {
    if (this.#place) this.#positions = (await store.get(this.#place)) ?? null
  }

  /** Ask the node for messages: from the start, or from where we are, once what has come is done. */
  async open() {
    this.#generation += 1
    const generation = this.#generation
    await this.#working
    if (generation !== this.#generation) return
    const { start = "latest", group = "", credit, encoding } = this.#options
    const asked = { type: "subscribe", id: this.id, topic: this.filter, credit, encoding }
    if (group) asked.group = group
    else if (this.#positions) asked.positions = this.#positions
    else asked.start = start
    this.#client.tell(asked)
  }

  /** End it. */
  close() {
    this.#generation += 1
    this.#client.forget(this)
  }

  /** Resolve when all that has come is processed, and its place kept. */
  async settled() {
    await this.#working
  }

  /** Take what the node tells. */
  hear(told) {
    if (told.type === "subscribed") {
      this.#positions ??= told.positions
      this.#opened.resolve(this)
    } else if (told.type === "records") {
      const generation = this.#generation
      this.#working = this.#working.then(() => this.#work(told, generation))
    } else if (told.type === "gap" || told.type === "dropped") {
      this.#options.onGap?.(told)
    } else if (told.type === "error" || (told.type === "unsubscribed" && told.error)) {
      const error = new Refused(told.error, told.message)
      this.#opened.reject(error)
      this.#options.onError?.(error)
    }
  }

  async #work({ topic, position, records }, generation) {
    for (const record of records) {
      const message = new Message(topic, record)
      try {
        if (this.#client.encrypts) await this.#client.decrypt(message)
        const waiting = this.#handle(message)
        // Most are handled at once: a turn of the event loop for each would cost more than the rest.
        if (waiting) await waiting
        this.#settle(message, "accept", generation)
      } catch (error) {
        this.#options.onError?.(error)
        this.#settle(message, "release", generation)
      }
    }
    if (this.#options.group) return
    this.#positions = { ...this.#positions, [topic]: position }
    if (this.#place && !this.#client.isClosed) await this.#client.store.set(this.#place, this.#positions)
    if (generation === this.#generation) this.#client.tell({ type: "credit", id: this.id, count: records.length })
  }

  /** Call the function with a message that has not come before; return what is to be awaited, if anything. */
  #handle(message) {
    const { id } = message
    if (!this.#isFresh(id)) return undefined
    this.#client.remember(message)
    const waiting = this.#handler(message)
    if (typeof waiting?.then === "function") return waiting.then(() => void this.#seen.add(id))
    this.#seen.add(id)
    return undefined
  }

  #settle({ topic, partition, offset }, outcome, generation) {
    if (!this.#options.group || generation !== this.#generation) return
    this.#client.tell({ type: "ack", id: this.id, topic, partition, offset, outcome })
  }

  #isFresh(id) {
    if (this.#seen.has(id)) return false
    if (this.#seen.size >= IDS_KEPT) this.#seen.delete(this.#seen.values().next().value)
    return true
  }
}
