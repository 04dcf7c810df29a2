/** One WebSocket that is opened again when it breaks, with back-off and jitter. */
import { Backoff } from "./backoff.js"
import { NotConnected, Refused } from "./errors.js"

const LOGIN_REFUSED = 1008
const SILENCE_MS = 30_000

export class Connection {
  #url
  #token
  #backoff
  #socket
  #timer
  #watch
  #wanted = false
  #isOpen = false

  /** `heard` gets every message, `changed` the state: connecting, connected, disconnected. */
  constructor(url, { token, clientId, backoff, heard, changed }) {
    const address = new URL(url)
    if (clientId) address.searchParams.set("client", clientId)
    this.#url = address.href
    this.#token = token
    this.#backoff = new Backoff(backoff)
    this.heard = heard
    this.changed = changed
  }

  get isOpen() {
    return this.#isOpen
  }

  open() {
    this.#wanted = true
    this.#dial()
  }

  close() {
    this.#wanted = false
    clearTimeout(this.#timer)
    this.#lose(new NotConnected("the client was closed"))
  }

  /** Send a message; throws NotConnected if there is no connection. */
  send(message) {
    if (!this.#isOpen) throw new NotConnected("there is no connection")
    this.#socket.send(JSON.stringify(message))
  }

  /** Act as if the network had gone: for tests of what is built on this. */
  drop() {
    this.#lose(new NotConnected("the connection was dropped"))
  }

  #dial() {
    this.changed("connecting")
    const socket = new WebSocket(this.#url, "chordmq.json")
    this.#socket = socket
    this.#watch = setTimeout(() => this.#lose(new NotConnected("the node does not answer")), SILENCE_MS)
    socket.onopen = async () => {
      const token = typeof this.#token === "function" ? await this.#token() : this.#token
      if (token && socket === this.#socket) socket.send(JSON.stringify({ type: "login", token }))
    }
    socket.onmessage = ({ data }) => socket === this.#socket && this.#hear(JSON.parse(data))
    socket.onclose = ({ code, reason }) => {
      if (socket !== this.#socket) return
      const refused = code === LOGIN_REFUSED && !this.#isOpen
      this.#lose(refused ? new Refused("LoginRefused", reason) : new NotConnected(reason || `closed with ${code}`))
    }
    // The event says nothing; `onclose` follows with what is known.
    socket.onerror = () => {}
  }

  #hear(told) {
    this.#expectMore()
    if (told.type === "pong") return
    if (told.type === "welcome") {
      this.#isOpen = true
      this.#backoff.reset()
      this.changed("connected")
    }
    this.heard(told)
  }

  /** Ask for a sign of life after a silence, and give up after a second one. */
  #expectMore() {
    clearTimeout(this.#watch)
    this.#watch = setTimeout(() => {
      if (!this.#isOpen) return
      this.send({ type: "ping" })
      this.#watch = setTimeout(() => this.#lose(new NotConnected("the node is silent")), SILENCE_MS)
    }, SILENCE_MS)
  }

  #lose(error) {
    const socket = this.#socket
    this.#socket = undefined
    this.#isOpen = false
    clearTimeout(this.#watch)
    socket?.close()
    if (socket) this.changed("disconnected", error)
    if (this.#wanted) {
      clearTimeout(this.#timer)
      this.#timer = setTimeout(() => this.#dial(), this.#backoff.next())
    }
  }
}
