/** Every failure of the SDK, named by its fault. */

export class ChordMQError extends Error {
  constructor(message, options) {
    super(message, options)
    this.name = new.target.name
  }
}

/** There is no connection, and it was not wished to wait for one. */
export class NotConnected extends ChordMQError {}

/** The client was closed before it was done. */
export class Closed extends ChordMQError {}

/** No answer came in time; whether it is done is unknown. */
export class TimedOut extends ChordMQError {}

/** The node refuses; `fault` is the name of its error, such as `UnknownTopic` or `AccessDenied`. */
export class Refused extends ChordMQError {
  constructor(fault, message) {
    super(message || fault)
    this.fault = fault
  }
}

/** What was changed has changed meanwhile; `current` is how it is now. */
export class Conflict extends ChordMQError {
  constructor(message, current) {
    super(message)
    this.current = current
  }
}

/** A message was encrypted with another key, was tampered with, or is plain. */
export class CannotDecrypt extends ChordMQError {}
