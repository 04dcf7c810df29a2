/** Keeps what the client must not forget, for as long as the program runs. */
export class MemoryStore {
  #entries = new Map()
  #values = new Map()

  async open() {}

  async close() {}

  /** Return all entries of the queue, in their order. */
  async entries() {
    return [...this.#entries.values()]
  }

  /** Put an entry behind all others, or in its old place if it is there. */
  async put(entry) {
    this.#entries.set(entry.id, structuredClone(entry))
  }

  async remove(id) {
    this.#entries.delete(id)
  }

  /** Return a value by its name; undefined if there is none. */
  async get(name) {
    return this.#values.get(name)
  }

  async set(name, value) {
    this.#values.set(name, structuredClone(value))
  }
}
