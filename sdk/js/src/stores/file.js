/** Keeps what the client must not forget in a file of Node: one line for each change, synced to disk. */
import { open, readFile, rename } from "node:fs/promises"
import { MemoryStore } from "./memory.js"

const LINES_MAX = 10_000

export class FileStore {
  #path
  #file
  #memory = new MemoryStore()
  #values = new Map()
  #lines = 0
  #writing = Promise.resolve()

  constructor(path) {
    this.#path = path
  }

  async open() {
    const text = await readFile(this.#path, "utf8").catch((error) => {
      if (error.code === "ENOENT") return ""
      throw error
    })
    for (const line of text.split("\n").slice(0, -1)) await this.#replay(JSON.parse(line))
    await this.#rewrite()
  }

  async close() {
    await this.#writing
    await this.#file?.close()
    this.#file = undefined
  }

  async entries() {
    return this.#memory.entries()
  }

  async put(entry) {
    await this.#append({ put: entry })
  }

  async remove(id) {
    await this.#append({ remove: id })
  }

  async get(name) {
    return this.#memory.get(name)
  }

  async set(name, value) {
    await this.#append({ set: name, value })
  }

  async #replay(change) {
    if (change.put) await this.#memory.put(change.put)
    else if (change.remove) await this.#memory.remove(change.remove)
    else {
      this.#values.set(change.set, change.value)
      await this.#memory.set(change.set, change.value)
    }
  }

  /** Write one change; those that come at the same time wait for their turn. */
  #append(change) {
    const written = this.#writing.then(async () => {
      await this.#replay(change)
      if (this.#lines >= LINES_MAX) return this.#rewrite()
      await this.#file.write(`${JSON.stringify(change)}\n`)
      await this.#file.datasync()
      this.#lines += 1
    })
    this.#writing = written.catch(() => {})
    return written
  }

  /** Write a file that holds only what is kept; a line that a crash has torn is left out. */
  async #rewrite() {
    await this.#file?.close()
    const entries = await this.#memory.entries()
    const changes = [
      ...entries.map((entry) => ({ put: entry })),
      ...[...this.#values].map(([name, value]) => ({ set: name, value })),
    ]
    const next = `${this.#path}.next`
    const file = await open(next, "w")
    await file.write(changes.map((one) => `${JSON.stringify(one)}\n`).join(""))
    await file.datasync()
    await file.close()
    await rename(next, this.#path)
    this.#file = await open(this.#path, "a")
    this.#lines = changes.length
  }
}
