/** Messages on their way to the node: kept until it has acknowledged them, and sent in their order. */
import { Closed, Refused } from "./errors.js"

const WINDOW = 500

export class Outbox {
  #store
  #send
  #waiting = new Map()
  #inFlight = 0
  #adding = Promise.resolve()

  /** `send` sends one message of the gateway, if there is a connection. */
  constructor(store, send) {
    this.#store = store
    this.#send = send
  }

  /** Return how many messages the node has not acknowledged. */
  get size() {
    return this.#waiting.size
  }

  /** Load what was left behind by a reload or a crash. */
  async load(finished) {
    for (const { id, frame } of await this.#store.entries()) {
      this.#waiting.set(id, { frame, isSent: false, resolve: (place) => finished(id, null, place), reject: (error) => finished(id, error) })
    }
  }

  /** Keep a message; return where it lies when the node has it. */
  add(id, frame) {
    const stored = new Promise((resolve, reject) => {
      this.#adding = this.#adding
        .then(() => this.#store.put({ id, frame }))
        .then(() => {
          this.#waiting.set(id, { frame, isSent: false, resolve, reject })
          this.pump()
        })
        .catch(reject)
    })
    return stored
  }

  /** Send what waits, as far as the window goes. */
  pump() {
    if (this.#inFlight >= WINDOW) return
    for (const [id, one] of this.#waiting) {
      if (one.isSent) continue
      if (this.#inFlight >= WINDOW || !this.#send({ ...one.frame, id: `p${id}` })) return
      one.isSent = true
      this.#inFlight += 1
    }
  }

  /** Take note that all that is under way must be sent again. */
  reset() {
    this.#inFlight = 0
    for (const one of this.#waiting.values()) one.isSent = false
  }

  /** Take an answer of the node, if it is one of ours. */
  async hear(told) {
    const id = typeof told.id === "string" && told.id.startsWith("p") ? told.id.slice(1) : null
    const one = id === null ? undefined : this.#waiting.get(id)
    if (!one || (told.type !== "published" && told.type !== "error")) return
    this.#waiting.delete(id)
    if (one.isSent) this.#inFlight -= 1
    this.pump()
    await this.#store.remove(id)
    if (told.type === "published") one.resolve({ topic: told.topic, partition: told.partition, offset: told.offset })
    else one.reject(new Refused(told.error, told.message))
  }

  /** Tell those who wait that the client is closed; what is kept is sent by the next one. */
  close() {
    for (const one of this.#waiting.values()) one.reject(new Closed("closed before the node had it; it is kept"))
    this.#waiting.clear()
  }
}
