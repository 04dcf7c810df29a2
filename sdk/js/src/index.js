/** ChordMQ for browsers and Node: connect, subscribe, publish, ask; also while there is no connection. */
export { Client } from "./client.js"
export { Backoff } from "./backoff.js"
export { Encryption } from "./encryption.js"
export { ChordMQError, Closed, Conflict, Refused, TimedOut, NotConnected, CannotDecrypt } from "./errors.js"
export { matches } from "./names.js"
export { MemoryStore } from "./stores/memory.js"
export { IndexedDbStore } from "./stores/indexeddb.js"
