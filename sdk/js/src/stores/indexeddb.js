/** Keeps what the client must not forget in the browser's IndexedDB: it survives a reload and a crash. */

const ENTRIES = "entries"
const VALUES = "values"

export class IndexedDbStore {
  #name
  #database
  #next = 0

  /** Two clients that are open at the same time need two names. */
  constructor(name = "chordmq") {
    this.#name = name
  }

  async open() {
    const opening = indexedDB.open(this.#name, 1)
    opening.onupgradeneeded = () => {
      opening.result.createObjectStore(ENTRIES, { keyPath: "order" }).createIndex("id", "id", { unique: true })
      opening.result.createObjectStore(VALUES)
    }
    this.#database = await done(opening)
    const entries = await this.entries()
    this.#next = entries.reduce((most, one) => Math.max(most, one.order + 1), 0)
  }

  async close() {
    this.#database?.close()
  }

  async entries() {
    return done(this.#store(ENTRIES, "readonly").getAll())
  }

  async put(entry) {
    const order = this.#next
    this.#next += 1
    const store = this.#store(ENTRIES, "readwrite")
    const known = await done(store.index("id").get(entry.id))
    store.put({ ...entry, order: known?.order ?? order })
    await committed(store)
  }

  async remove(id) {
    const store = this.#store(ENTRIES, "readwrite")
    const order = await done(store.index("id").getKey(id))
    if (order === undefined) return
    store.delete(order)
    await committed(store)
  }

  async get(name) {
    return done(this.#store(VALUES, "readonly").get(name))
  }

  async set(name, value) {
    const store = this.#store(VALUES, "readwrite")
    store.put(value, name)
    await committed(store)
  }

  #store(name, mode) {
    return this.#database.transaction(name, mode, { durability: "strict" }).objectStore(name)
  }
}

function done(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result)
    request.onerror = () => reject(request.error)
  })
}

function committed({ transaction }) {
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve()
    transaction.onabort = () => reject(transaction.error)
  })
}
