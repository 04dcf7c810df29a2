/** Reads one encrypted message of Python's, prints it, and publishes one that Python can read. */
const [, , folder, facts] = process.argv
const { Client, Encryption } = await import(`${folder}/src/index.js`)
const { url, name, ring } = JSON.parse(facts)

const client = new Client(url, { encryption: new Encryption(ring) })
client.addEventListener("state", ({ detail }) => console.error(detail.state, detail.error?.message ?? ""))
await client.connect()
const read = new Promise((resolve, reject) => {
  client.subscribe(name, (message) => resolve(message.text), { start: "earliest", onError: reject })
})
console.log(await read)
await client.publish(name, "aus JavaScript ü")
await client.close()
