/** The scenarios in Node, at the node that CHORDMQ_URL names. */
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { test } from "node:test"
import * as sdk from "../src/index.js"
import { FileStore } from "../src/stores/file.js"
import * as scenarios from "./scenarios.js"

const url = process.env.CHORDMQ_URL
const prefix = process.env.CHORDMQ_NAME ?? "sdk"
const ring = process.env.CHORDMQ_KEYS

for (const [at, [title, scenario]] of Object.entries(scenarios).entries()) {
  test(title, async () => {
    const folder = await mkdtemp(join(tmpdir(), "chordmq-"))
    try {
      await scenario(sdk, { url, name: `${prefix}-${at}`, ring, makeStore: (name) => new FileStore(join(folder, name)) })
    } finally {
      await rm(folder, { recursive: true })
    }
  })
}
