/** How long to wait before the next attempt: exponential, with jitter, bounded. */

const JITTER = 0.2

export class Backoff {
  constructor({ firstMs = 200, mostMs = 10_000, random = Math.random } = {}) {
    this.firstMs = firstMs
    this.mostMs = mostMs
    this.random = random
    this.failures = 0
  }

  /** Count one more failure; return the wait after it in milliseconds. */
  next() {
    const wait = Math.min(this.mostMs, this.firstMs * 2 ** Math.min(this.failures, 16))
    this.failures += 1
    return wait * (1 - JITTER + 2 * JITTER * this.random())
  }

  /** Forget the failures after a success. */
  reset() {
    this.failures = 0
  }
}
