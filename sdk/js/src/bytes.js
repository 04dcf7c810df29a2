/** Values as people give them, as bytes, and as they stand in JSON. */

const encoder = new TextEncoder()
const decoder = new TextDecoder()
const CHUNK = 0x8000

/** Return the bytes of a text, of bytes, or of anything else as JSON; null stays null. */
export function toBytes(value) {
  if (value === null || value === undefined) return null
  if (value instanceof Uint8Array) return value
  return encoder.encode(typeof value === "string" ? value : JSON.stringify(value))
}

export function toText(bytes) {
  return decoder.decode(bytes)
}

export function toBase64(bytes) {
  let text = ""
  for (let at = 0; at < bytes.length; at += CHUNK) {
    text += String.fromCharCode(...bytes.subarray(at, at + CHUNK))
  }
  return btoa(text)
}

export function fromBase64(text) {
  return Uint8Array.from(atob(text), (one) => one.charCodeAt(0))
}

/** Return the bytes that a text of the gateway stands for. */
export function fromShown(text, encoding) {
  if (text === null || text === undefined) return null
  return encoding === "base64" ? fromBase64(text) : encoder.encode(text)
}
