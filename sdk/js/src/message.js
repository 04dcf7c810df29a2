/** A message as a subscriber gets it. */
import { fromShown, toText } from "./bytes.js"

const ID_HEADER = "message-id"

export class Message {
  constructor({ name, topic, record, headers, bytes }) {
    this.name = name
    this.topic = topic
    this.partition = record.partition
    this.offset = record.offset
    this.timestamp = record.timestamp
    this.key = record.key ?? null
    /** Pairs of a name and bytes, or null; names may repeat. */
    this.headers = headers
    this.bytes = bytes
    this.deliveries = record.deliveries ?? 1
  }

  /** Read what the gateway tells of a record. */
  static from(topic, record) {
    const headers = (record.headers ?? []).map((one) => [one.name, fromShown(one.value, one.encoding)])
    const bytes = fromShown(record.value, record.encoding)
    const message = new Message({ name: record.name || topic, topic, record, headers, bytes })
    if (record.key_encoding === "base64" && record.key !== null) message.key = fromShown(record.key, "base64")
    return message
  }

  /** Return the value as text; null if there is none. */
  get text() {
    return this.bytes === null ? null : toText(this.bytes)
  }

  /** Return what the value says in JSON; throws a SyntaxError if it is none. */
  get json() {
    return this.bytes === null ? null : JSON.parse(this.text)
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

  #envelopeId() {
    if (this.bytes === null || this.bytes[0] !== 0x7b) return null
    try {
      const { metadata } = this.json
      return typeof metadata?.messageId === "string" ? metadata.messageId : null
    } catch {
      return null
    }
  }
}

export { ID_HEADER }
