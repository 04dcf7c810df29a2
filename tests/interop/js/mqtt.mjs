// MQTT.js publishes with every QoS, subscribes by wildcard, finds a retained message, comes back to its session.
import mqtt from "mqtt"
import { deepStrictEqual as equal, ok as check } from "node:assert"

const [url, name, version] = process.argv.slice(2)
const options = { protocolVersion: Number(version), reconnectPeriod: 0, connectTimeout: 60000 }
const kept = { ...options, clientId: `${name}-js`, clean: false }
if (version === "5") kept.properties = { sessionExpiryInterval: 600 }

const received = (client, count) => new Promise((resolve) => {
  const found = []
  client.on("message", (topic, payload, packet) => {
    found.push({ topic, text: payload.toString(), qos: packet.qos, retain: packet.retain })
    if (found.length === count) resolve(found)
  })
})

const client = await mqtt.connectAsync(url, kept)
await client.publishAsync(`${name}/kept`, "retained", { qos: 1, retain: true })
const first = received(client, 1)
await client.subscribeAsync(`${name}/#`, { qos: 2 })
equal((await first)[0], { topic: `${name}/kept`, text: "retained", qos: 1, retain: true })
client.removeAllListeners("message")

const all = received(client, 30)
for (let number = 0; number < 30; number++) {
  await client.publishAsync(`${name}/a`, String(number), { qos: number % 3 })
}
const numbers = (await all).map((one) => Number(one.text)).sort((a, b) => a - b)
equal(numbers, [...Array(30).keys()])
await client.endAsync()

const writer = await mqtt.connectAsync(url, options)
await writer.publishAsync(`${name}/a`, "missed", { qos: 1 })
await writer.endAsync()
const again = mqtt.connect(url, kept)
const missed = received(again, 1)
equal((await missed)[0].text, "missed")
check(again.connected, "connected")
await again.endAsync()
process.exit(0)
