/**
 * End-to-end encryption, as the Python client does it: AES-256-GCM with data keys that a key of the
 * owner wraps (RFC 3394). Topic, key and the headers before `enc.alg` are authenticated as well.
 */
import { fromBase64, toBytes, toText } from "./bytes.js"
import { CannotDecrypt } from "./errors.js"
import { destination } from "./names.js"

const ALGORITHM = "A256GCM"
const NAMES = ["enc.alg", "enc.kid", "enc.dek", "enc.nonce"]
const NAME_HEADER = "chordmq.topic"
const NONCE_SIZE = 12
const RECORDS_MAX = 2 ** 20
const AGE_MAX_MS = 3_600_000
const UNWRAPPED_MAX = 1_000

export class Encryption {
  #keys = []
  #inUse = new Map()
  #unwrapped = new Map()
  #acceptsPlain

  /** Take the text of `chordmq keys create`, or the object that it holds. */
  constructor(ring, { acceptsPlain = false } = {}) {
    const { keys } = typeof ring === "string" ? JSON.parse(ring) : ring
    if (!Array.isArray(keys) || keys.length === 0) throw new TypeError("there are no keys in it")
    this.#acceptsPlain = acceptsPlain
    this.#keys = keys.map(({ id, key }) => ({
      id,
      key: crypto.subtle.importKey("raw", fromBase64(key), "AES-KW", false, ["wrapKey", "unwrapKey"]),
    }))
  }

  /** Return headers, key and value of a message for a name, with its value encrypted. */
  async seal({ name, key, headers, value }) {
    const place = destination(name)
    const bound = key ?? toBytes(place.key)
    if (value === null) return { key: bound, headers, value }
    const dataKey = await this.#dataKey(place.topic)
    const nonce = crypto.getRandomValues(new Uint8Array(NONCE_SIZE))
    const known = name.includes("/") ? [[NAME_HEADER, toBytes(name)], ...headers] : headers
    const sealed = await crypto.subtle.encrypt(
      { name: "AES-GCM", iv: nonce, additionalData: additional(place.topic, bound, known) },
      dataKey.key,
      value,
    )
    return { key: bound, headers: [...headers, ...dataKey.headers, [NAMES[3], nonce]], value: new Uint8Array(sealed) }
  }

  /** Put the plain value in place of an encrypted one; throw CannotDecrypt if that cannot be. */
  async open(message, key) {
    if (message.bytes === null) return
    const at = message.headers.findLastIndex(([name]) => name === NAMES[0])
    if (at < 0) {
      if (this.#acceptsPlain) return
      throw new CannotDecrypt("it is not encrypted")
    }
    const facts = message.headers.slice(at, at + NAMES.length)
    if (facts.length < NAMES.length || facts.some(([name, value], n) => name !== NAMES[n] || value === null)) {
      throw new CannotDecrypt("the headers of its encryption are not complete")
    }
    const before = message.headers.slice(0, at)
    const dataKey = await this.#unwrap(toText(facts[1][1]), facts[2][1])
    const named = [[NAME_HEADER, toBytes(message.name)], ...before]
    for (const headers of [named, before]) {
      const additionalData = additional(message.topic, key, headers)
      try {
        const opened = await crypto.subtle.decrypt({ name: "AES-GCM", iv: facts[3][1], additionalData }, dataKey, message.bytes)
        message.reveal(new Uint8Array(opened), [...before, ...message.headers.slice(at + NAMES.length)])
        return
      } catch (error) {
        if (error.name !== "OperationError") throw error
      }
    }
    throw new CannotDecrypt("its value, key, headers or topic are not those that were encrypted")
  }

  async #dataKey(topic) {
    const known = this.#inUse.get(topic)
    if (known && known.left > 0 && Date.now() < known.ends) {
      known.left -= 1
      return known
    }
    const owner = this.#keys.at(-1)
    const key = await crypto.subtle.generateKey({ name: "AES-GCM", length: 256 }, true, ["encrypt"])
    const wrapped = new Uint8Array(await crypto.subtle.wrapKey("raw", key, await owner.key, "AES-KW"))
    const headers = [[NAMES[0], toBytes(ALGORITHM)], [NAMES[1], toBytes(owner.id)], [NAMES[2], wrapped]]
    const fresh = { key, headers, left: RECORDS_MAX - 1, ends: Date.now() + AGE_MAX_MS }
    this.#inUse.set(topic, fresh)
    return fresh
  }

  async #unwrap(id, wrapped) {
    const place = `${id} ${wrapped.join()}`
    const known = this.#unwrapped.get(place)
    if (known) return known
    const owner = this.#keys.find((one) => one.id === id)
    if (!owner) throw new CannotDecrypt(`it was encrypted with the key ${id}, which we do not have`)
    const key = await crypto.subtle
      .unwrapKey("raw", wrapped, await owner.key, "AES-KW", "AES-GCM", false, ["decrypt"])
      .catch(() => {
        throw new CannotDecrypt(`its data key was not wrapped by the key ${id} that we have`)
      })
    if (this.#unwrapped.size >= UNWRAPPED_MAX) this.#unwrapped.clear()
    this.#unwrapped.set(place, key)
    return key
  }
}

/** Return what is authenticated beside the value; sizes go first, so that nothing can shift. */
function additional(topic, key, headers) {
  const parts = [toBytes(ALGORITHM), toBytes(topic), key]
  for (const [name, value] of headers) parts.push(toBytes(name), value)
  const size = parts.reduce((sum, part) => sum + 4 + (part?.length ?? 0), 0)
  const joined = new Uint8Array(size)
  const view = new DataView(joined.buffer)
  let at = 0
  for (const part of parts) {
    view.setUint32(at, part === null ? 0xffffffff : part.length)
    at += 4
    if (part !== null) {
      joined.set(part, at)
      at += part.length
    }
  }
  return joined
}
