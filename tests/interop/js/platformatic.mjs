// Drives the unmodified @platformatic/kafka client, which speaks only recent versions, against one broker.
import { ok, strictEqual } from 'node:assert'
import { Admin, Consumer, MessagesStreamModes, Producer, ProduceAcks, stringDeserializers, stringSerializers } from '@platformatic/kafka'
import { bootstrap, prefix, run, sameRecords, value, within } from './check.mjs'

const connection = { clientId: 'interop', bootstrapBrokers: [bootstrap] }

async function createTopic (topic, partitions) {
  const admin = new Admin(connection)
  try {
    await admin.createTopics({ topics: [topic], partitions, replicas: 1 })
  } finally {
    await admin.close()
  }
}

async function produce (topic, first, count, compression) {
  const producer = new Producer({ ...connection, idempotent: true, acks: ProduceAcks.ALL, serializers: stringSerializers })
  try {
    const messages = Array.from({ length: count }, (_, i) => ({
      topic, partition: 0, key: `key-${first + i}`, value: value(first + i), headers: { index: `${first + i}` }
    }))
    return await producer.send({ messages, compression })
  } finally {
    await producer.close()
  }
}

async function consume (topic, groupId, mode, count) {
  const consumer = new Consumer({
    ...connection, groupId, autocommit: false, deserializers: stringDeserializers, sessionTimeout: 30000, maxWaitTime: 500
  })
  try {
    return await within(60000, `consuming ${count} records`, read(consumer, topic, mode, count))
  } finally {
    await consumer.close(true)
  }
}

async function read (consumer, topic, mode, count) {
  const stream = await consumer.consume({ topics: [topic], mode, maxWaitTime: 500 })
  const records = []
  for await (const message of stream) {
    records.push({ key: message.key, value: message.value, index: message.headers.get('index') })
    if (records.length === count) {
      await message.commit()
      break
    }
  }
  await stream.close()
  return records
}

await run({
  async records () {
    for (const compression of ['none', 'gzip', 'snappy', 'lz4', 'zstd']) {
      const topic = `${prefix}-platformatic-${compression}`
      await createTopic(topic, 1)
      const answer = await produce(topic, 0, 200, compression)
      strictEqual(answer.offsets[0].offset, 0n)
      sameRecords(await consume(topic, `${topic}-group`, MessagesStreamModes.EARLIEST, 200), 200)
    }
  },

  async resume () {
    const topic = `${prefix}-platformatic-resume`
    const group = `${topic}-group`
    await createTopic(topic, 1)
    await produce(topic, 0, 50)
    const before = await consume(topic, group, MessagesStreamModes.EARLIEST, 50)
    await produce(topic, 50, 50)
    const after = await consume(topic, group, MessagesStreamModes.COMMITTED, 50)
    sameRecords([...before, ...after], 100)
    const admin = new Admin(connection)
    try {
      ok((await admin.listGroups()).has(group))
      await admin.deleteGroups({ groups: [group] })
    } finally {
      await admin.close()
    }
  }
})
