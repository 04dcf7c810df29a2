/** The parts that need no node. */
import assert from "node:assert/strict"
import { appendFile, mkdtemp, readFile, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { test } from "node:test"
import { Backoff, matches } from "../src/index.js"
import { fromBase64, toBase64 } from "../src/bytes.js"
import { destination } from "../src/names.js"
import { FileStore } from "../src/stores/file.js"

test("waits grow, stay below the most, and are spread", () => {
  const waits = (random) => {
    const backoff = new Backoff({ firstMs: 100, mostMs: 1_000, random: () => random })
    return [1, 2, 3, 4, 5].map(() => Math.round(backoff.next()))
  }
  assert.deepEqual(waits(0.5), [100, 200, 400, 800, 1000])
  assert.deepEqual(waits(0), [80, 160, 320, 640, 800])
})

test("filters match as they do at the node", () => {
  const cases = [["a/+/c", "a/b/c", true], ["a/#", "a", true], ["a/#", "a/b/c", true], ["+/b", "a/b/c", false], ["#", "$SYS/x", false], ["a/b", "a/b", true]]
  for (const [filter, name, wanted] of cases) assert.equal(matches(filter, name), wanted, `${filter} ${name}`)
})

test("a name has the log topic and the key that it has at the node", () => {
  assert.deepEqual(destination("iot/devices/d7/t"), { topic: "iot.devices", key: "d7" })
  assert.deepEqual(destination("orders"), { topic: "orders", key: null })
  assert.deepEqual(destination("a b/ü/x"), { topic: "a_b._", key: "x" })
})

test("bytes survive base64, many of them", () => {
  const bytes = Uint8Array.from({ length: 100_000 }, (_, at) => at % 256)
  assert.deepEqual(fromBase64(toBase64(bytes)), bytes)
})

test("a file keeps entries in their order, values, and neither what was removed nor a torn line", async () => {
  const folder = await mkdtemp(join(tmpdir(), "chordmq-"))
  const path = join(folder, "store")
  const store = new FileStore(path)
  await store.open()
  await Promise.all(["a", "b", "c"].map((id) => store.put({ id, frame: {} })))
  await store.remove("b")
  await store.set("positions", { orders: "0:1" })
  await store.close()
  await appendFile(path, '{"put":{"id":"torn')
  const again = new FileStore(path)
  await again.open()
  assert.deepEqual((await again.entries()).map((one) => one.id), ["a", "c"])
  assert.deepEqual(await again.get("positions"), { orders: "0:1" })
  await again.close()
  assert.equal((await readFile(path, "utf8")).trim().split("\n").length, 3)
  await rm(folder, { recursive: true })
})
