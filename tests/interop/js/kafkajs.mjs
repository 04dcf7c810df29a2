// Drives the unmodified KafkaJS client against one broker.
import { deepStrictEqual, ok, strictEqual } from 'node:assert'
import kafkajs from 'kafkajs'
import { FIRST_TIME_MS, bootstrap, prefix, run, sameRecords, value, within } from './check.mjs'

const kafka = new kafkajs.Kafka({ clientId: 'interop', brokers: [bootstrap], logLevel: kafkajs.logLevel.NOTHING })
const createPartitioner = kafkajs.Partitioners.DefaultPartitioner

async function withAdmin (use) {
  const admin = kafka.admin()
  await admin.connect()
  try {
    return await use(admin)
  } finally {
    await admin.disconnect()
  }
}

async function produce (topic, messages, settings = {}) {
  const producer = kafka.producer({ idempotent: true, createPartitioner })
  await producer.connect()
  try {
    return await producer.send({ topic, messages, acks: -1, ...settings })
  } finally {
    await producer.disconnect()
  }
}

async function consume (topic, groupId, count) {
  const consumer = kafka.consumer({ groupId, sessionTimeout: 30000, maxWaitTimeInMs: 500 })
  const records = []
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  try {
    await within(60000, `consuming ${count} records`, new Promise((resolve, reject) => {
      consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
      consumer.run({
        eachMessage: async ({ message }) => {
          records.push({
            key: message.key.toString(),
            value: message.value.toString(),
            index: message.headers.index.toString()
          })
          if (records.length === count) resolve()
        }
      }).catch(reject)
    }))
  } finally {
    await consumer.disconnect()
  }
  return records
}

const numbered = (first, count) => Array.from({ length: count }, (_, i) => ({
  key: `key-${first + i}`,
  value: value(first + i),
  headers: { index: `${first + i}` },
  timestamp: `${FIRST_TIME_MS + first + i}`
}))

await run({
  async records () {
    for (const [name, compression] of [['none', 0], ['gzip', 1]]) {
      const topic = `${prefix}-js-${name}`
      await withAdmin((admin) => admin.createTopics({ topics: [{ topic, numPartitions: 1 }] }))
      const [answer] = await produce(topic, numbered(0, 300), { compression })
      strictEqual(answer.baseOffset, '0')
      sameRecords(await consume(topic, `${topic}-group`, 300), 300)
    }
  },

  async resume () {
    const topic = `${prefix}-js-resume`
    await withAdmin((admin) => admin.createTopics({ topics: [{ topic, numPartitions: 1 }] }))
    await produce(topic, numbered(0, 50))
    const before = await consume(topic, `${topic}-group`, 50)
    await produce(topic, numbered(50, 50))
    const after = await consume(topic, `${topic}-group`, 50)
    sameRecords([...before, ...after], 100)
  },

  async admin () {
    const topic = `${prefix}-js-admin`
    await withAdmin(async (admin) => {
      const configEntries = [{ name: 'retention.ms', value: '3600000' }]
      ok(await admin.createTopics({ topics: [{ topic, numPartitions: 2, configEntries }] }))
      strictEqual(await admin.createTopics({ topics: [{ topic, numPartitions: 2 }] }), false)
      await admin.createPartitions({ topicPartitions: [{ topic, count: 3 }] })
      await within(60000, 'growing the topic', (async () => {
        for (;;) {
          const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
          if (topics[0].partitions.length === 3) return
        }
      })())
      const described = await admin.describeConfigs({ includeSynonyms: false, resources: [{ type: 2, name: topic }] })
      const retention = described.resources[0].configEntries.find((entry) => entry.configName === 'retention.ms')
      strictEqual(retention.configValue, '3600000')
      await produce(topic, numbered(0, 10).map((message) => ({ ...message, partition: 0 })))
      const offsets = await admin.fetchTopicOffsets(topic)
      deepStrictEqual(offsets.find((row) => row.partition === 0), { partition: 0, offset: '10', high: '10', low: '0' })
      const [found] = (await admin.fetchTopicOffsetsByTimestamp(topic, FIRST_TIME_MS + 4)).filter((row) => row.partition === 0)
      strictEqual(found.offset, '4')
      strictEqual((await admin.describeCluster()).brokers.length, 1)
      ok((await admin.listTopics()).includes(topic))
      await admin.deleteTopics({ topics: [topic] })
      await within(60000, 'deleting the topic', (async () => {
        while ((await admin.listTopics()).includes(topic));
      })())
    })
  }
})
