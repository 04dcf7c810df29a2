/** What the SDK promises, against a real node; the same in Node and in a browser. */

const WAIT_MS = 60_000

function check(isTrue, what) {
  if (!isTrue) throw new Error(`not so: ${what}`)
}

function same(got, wanted, what) {
  check(JSON.stringify(got) === JSON.stringify(wanted), `${what}: ${JSON.stringify(got)?.slice(0, 300)}`)
}

async function fails(promise, kind, what) {
  const error = await promise.then(() => null, (caught) => caught)
  check(error instanceof kind, `${what} fails with ${kind.name}: ${error}`)
  return error
}

/** Return a list, and a promise of it once it has so many items. */
function collector(count) {
  const items = []
  let enough
  const full = new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`${items.length} of ${count} came`)), WAIT_MS)
    enough = () => (clearTimeout(timer), resolve(items))
  })
  return { items, full, add: (item) => items.push(item) === count && enough() }
}

const numbers = (count) => Array.from({ length: count }, (_, at) => at)

/** Messages come once and in order, with all that belongs to them, and the last ones are kept. */
export async function messagesComeAsTheyWerePublished(sdk, { url, name }) {
  const client = await new sdk.Client(url).connect()
  const got = collector(201)
  await client.subscribe(`${name}/devices/+/t`, got.add)
  const bytes = new Uint8Array([0, 255, 7])
  const places = await Promise.all(numbers(200).map((n) => client.publish(`${name}/devices/d${n % 3}/t`, { n })))
  await client.publish(`${name}/devices/d9/t`, bytes, { key: "own", headers: { kind: "binary" }, id: "the-id", timestamp: 1_700_000_000_000 })
  const messages = await got.full
  same(places.length, 200, "each has its place")
  for (const device of [0, 1, 2]) {
    const of = messages.filter((one) => one.name.endsWith(`d${device}/t`)).map((one) => one.json.n)
    same(of, numbers(200).filter((n) => n % 3 === device), "the order of a device")
  }
  const last = client.last(`${name}/devices/d9/t`)
  same([...last.bytes], [0, 255, 7], "bytes")
  same([last.key, last.header("kind"), last.id, last.timestamp], ["own", "binary", "the-id", 1_700_000_000_000], "the rest")
  same(client.lastOf(`${name}/devices/+/t`).length, 4, "the last of each name")
  await client.close()
}

/** Broken connections lose nothing and repeat nothing: neither what is sent nor what is read. */
export async function brokenConnectionsLoseNothing(sdk, { url, name }) {
  const backoff = { firstMs: 20, mostMs: 100 }
  const [reader, writer] = [new sdk.Client(url, { backoff }), new sdk.Client(url, { backoff })]
  await Promise.all([reader.connect(), writer.connect()])
  const got = collector(300)
  await reader.subscribe(`${name}/a/#`, (message) => got.add(message.json))
  const places = []
  for (const n of numbers(300)) {
    places.push(writer.publish(`${name}/a/k`, n))
    if (n % 60 === 30) {
      writer.dropConnection()
      reader.dropConnection()
      await Promise.all(places)
    }
  }
  await Promise.all(places)
  same(await got.full, numbers(300), "each once and in order")
  await Promise.all([reader.close(), writer.close()])
}

/** What is published without a connection is kept over a reload, and sent in its order. */
export async function whatIsPublishedOfflineComesLater(sdk, { url, name, makeStore }) {
  const away = new sdk.Client("ws://127.0.0.1:1/ws", { store: makeStore(name) }).start()
  await fails(away.publish(`${name}/a/k`, 0, { queue: false }), sdk.NotConnected, "an impatient message")
  const waiting = numbers(20).map((n) => away.publish(`${name}/a/k`, n, { id: `${name}-${n}` }).catch((error) => error))
  while (away.queued < 20) await new Promise((resolve) => setTimeout(resolve, 5))
  await away.close()
  check((await Promise.all(waiting)).every((error) => error instanceof sdk.Closed), "they are told that it was closed")
  const watcher = await new sdk.Client(url).connect()
  const got = collector(20)
  await watcher.subscribe(`${name}/a/#`, (message) => got.add(message.json))
  const back = new sdk.Client(url, { store: makeStore(name) })
  const stored = collector(20)
  back.addEventListener("synchronised", ({ detail }) => stored.add(detail))
  await back.connect()
  same(await got.full, numbers(20), "in the order of publication")
  check((await stored.full).every(({ error, place }) => !error && place), "each is told")
  same(back.queued, 0, "nothing is left")
  await Promise.all([back.close(), watcher.close()])
}

/** A subscription with a name goes on after a reload; a message that was sent twice comes once. */
export async function aNamedSubscriptionGoesOn(sdk, { url, name, makeStore }) {
  const writer = await new sdk.Client(url).connect()
  const first = await new sdk.Client(url, { store: makeStore(`${name}-s`) }).connect()
  const before = collector(2)
  const mine = await first.subscribe(`${name}/a/#`, (message) => before.add(message.json), { name: "mine" })
  await writer.publish(`${name}/a/k`, 1, { id: `${name}-1` })
  await writer.publish(`${name}/a/k`, 1, { id: `${name}-1` })
  await writer.publish(`${name}/a/k`, 2)
  same(await before.full, [1, 2], "the second copy is dropped")
  await mine.settled()
  await first.close()
  await writer.publish(`${name}/a/k`, 3)
  const second = await new sdk.Client(url, { store: makeStore(`${name}-s`) }).connect()
  const after = collector(1)
  await second.subscribe(`${name}/a/#`, (message) => after.add(message.json), { name: "mine", start: "latest" })
  same(await after.full, [3], "what came while it was away")
  await Promise.all([second.close(), writer.close()])
}

/** Requests are answered; without an answer, or against the rules, the error says which. */
export async function requestsAreAnswered(sdk, { url, name }) {
  const [asker, answerer] = [new sdk.Client(url), new sdk.Client(url)]
  await Promise.all([asker.connect(), answerer.connect()])
  await answerer.respond(`${name}/services/+/double`, (message) => message.json * 2)
  const answers = await Promise.all(numbers(10).map((n) => asker.request(`${name}/services/s/double`, n)))
  same(answers.map((message) => message.json), numbers(10).map((n) => 2 * n), "each has its own answer")
  await fails(asker.request(`${name}/services/s/nobody`, 1, { timeoutMs: 100 }), sdk.TimedOut, "a question to nobody")
  const refused = await fails(asker.publish(`${name}/+/x`, 1), sdk.Refused, "a name with a wildcard")
  same(refused.fault, "InvalidTopicName", "why")
  await Promise.all([asker.close(), answerer.close()])
}

/** Members of a group get each message once between them. */
export async function aGroupSharesMessages(sdk, { url, name }) {
  const clients = await Promise.all([1, 2].map(() => new sdk.Client(url).connect()))
  await clients[0].publish(name, 0)
  const got = collector(50)
  const take = ({ json }) => json > 0 && got.add(json)
  for (const client of clients) await client.subscribe(name, take, { group: name, credit: 5 })
  for (const n of numbers(51).slice(1)) await clients[0].publish(name, n)
  same((await got.full).toSorted((one, other) => one - other), numbers(51).slice(1), "all of them")
  await Promise.all(clients.map((client) => client.close()))
}

/** A value that was encrypted is readable with the key only. */
export async function valuesAreEncryptedEndToEnd(sdk, { url, name, ring }) {
  const encryption = new sdk.Encryption(ring)
  const [owner, stranger] = [new sdk.Client(url, { encryption }), new sdk.Client(url)]
  await Promise.all([owner.connect(), stranger.connect()])
  const [plain, sealed, faults] = [collector(2), collector(3), collector(1)]
  await owner.subscribe(`${name}/#`, (message) => plain.add(message.text), { onError: faults.add })
  await stranger.subscribe(`${name}/#`, sealed.add)
  await owner.publish(`${name}/secrets/s1`, "grüße", { headers: { kind: "text" } })
  await stranger.publish(`${name}/secrets/s1`, "anybody's")
  await owner.publish(`${name}/secrets/s2`, "second")
  same(await plain.full, ["grüße", "second"], "the owner reads its own")
  check((await sealed.full)[0].text !== "grüße", "nobody else does")
  check((await faults.full)[0] instanceof sdk.CannotDecrypt, "what is plain is not trusted")
  await Promise.all([owner.close(), stranger.close()])
}

/** A change that was made in ignorance of another one is put before the application. */
export async function conflictsArePutBeforeTheApplication(sdk, { url, name }) {
  const conflicts = []
  const onConflict = ({ state }, now) => {
    conflicts.push(now.state.desired.heat)
    return { desired: { heat: Math.max(state.desired.heat, now.state.desired.heat) } }
  }
  const [one, other] = [new sdk.Client(url, { onConflict }), new sdk.Client(url)]
  await Promise.all([one.connect(), other.connect()])
  const { version } = await one.updateShadow(name, { desired: { heat: 20 } })
  one.dropConnection()
  await other.updateShadow(name, { desired: { heat: 25 } })
  const settled = await one.updateShadow(name, { desired: { heat: 22 } }, { baseVersion: version })
  same(conflicts, [25], "the application was asked")
  same(settled.state.desired.heat, 25, "and its answer counts")
  const refused = await fails(other.updateShadow(name, { desired: { heat: 1 } }, { baseVersion: version }), sdk.Conflict, "without an opinion")
  same(refused.current.version, settled.version, "how it is now")
  await Promise.all([one.close(), other.close()])
}
