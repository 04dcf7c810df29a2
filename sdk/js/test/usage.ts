/** A program in TypeScript: what its compiler thinks of the types. */
import { Client, Conflict, Encryption, IndexedDbStore, Refused, type Message } from "../src/index.js"
import { FileStore } from "../src/stores/file.js"

const client = new Client("ws://localhost:8080/ws", {
  token: async () => "token",
  store: new IndexedDbStore("orders"),
  encryption: new Encryption("{}"),
  onConflict: (update, now) => ({ desired: { ...now.state.desired, ...update.state.desired } }),
})
await client.connect()
const shown = (message: Message): void => console.log(message.name, message.text, message.json)
const subscription = await client.subscribe("iot/devices/+/t", shown, { name: "mine", start: "earliest" })
const { offset } = await client.publish("iot/devices/d7/t", { heat: 21 }, { headers: { kind: "x" } })
console.log(offset.toFixed(), client.last("iot/devices/d7/t")?.bytes?.length, subscription.id)
try {
  await client.updateShadow("d7", { desired: { heat: 21 } }, { baseVersion: 3 })
} catch (error) {
  if (error instanceof Conflict) console.log(error.current.version)
  if (error instanceof Refused) console.log(error.fault)
}
const store: FileStore = new FileStore("queue")
await store.close()
