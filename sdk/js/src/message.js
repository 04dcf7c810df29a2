/** A message as a subscriber gets it; what nobody looks at is not converted. */
import { fromShown, toText } from "./bytes.js"

const ID_HEADER = "message-id"
const ENVELOPE = '"metadata"'

export class Message {
  #record
  #headers
  #bytes
  #text
  #json

  /** Take what the gateway tells of a record of a log topic. */
  constructor(topic, record) {
    this.#record = record
    this.topic = topic
    this.name = record.name || topic
    this.partition = record.partition
    this.offset = record.offset
    this.timestamp = record.timestamp
    this.deliveries = record.deliveries ?? 1
    if (record.value === null || record.value === undefined) this.#bytes = this.#text = this.#json = null
    else if (record.encoding !== "base64") this.#text = record.value
  }

  /** Return the key as text; as bytes where it is none; null without one. */
  get key() {
    const { key, key_encoding: encoding } = this.#record
    return encoding === "base64" ? fromShown(key, encoding) : (key ?? null)
  }

  /** Return pairs of a name and bytes, or null; names may repeat. */
  get headers() {
    this.#headers ??= (this.#record.headers ?? []).map((one) => [one.name, fromShown(one.value, one.encoding)])
    return this.#headers
  }

  get bytes() {
    if (this.#bytes === undefined) this.#bytes = fromShown(this.#record.value, this.#record.encoding)
    return this.#bytes
  }

  /** Return the value as text; null if there is none. */
  get text() {
    if (this.#text === undefined) this.#text = toText(this.bytes)
    return this.#text
  }

  /** Return what the value says in JSON; throws a SyntaxError if it is none. */
  get json() {
    if (this.#json === undefined) this.#json = JSON.parse(this.text)
    return this.#json
  }

  /** Return the value of a header as text, or null. */
  header(name) {
    const found = this.headers.find(([one]) => one === name)
    return found?.[1] ? toText(found[1]) : null
  }

  /** Return the id by which a message that comes twice is known: its own, its envelope's, or its place. */
  get id() {
    return this.header(ID_HEADER) ?? this.#envelopeId() ?? `${this.topic}-${this.partition}-${this.offset}`
  }

  /** Put a value and headers in place of encrypted ones. */
  reveal(bytes, headers) {
    this.#bytes = bytes
    this.#headers = headers
    this.#text = undefined
    this.#json = undefined
  }

  #envelopeId() {
    if (this.#record.encoding === "base64" || !this.text?.includes(ENVELOPE)) return null
    try {
      const { metadata } = this.json
      return typeof metadata?.messageId === "string" ? metadata.messageId : null
    } catch {
      return null
    }
  }
}

export { ID_HEADER }
