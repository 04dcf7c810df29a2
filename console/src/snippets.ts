// The same thing from a terminal or a program: commands to copy.
import type { Info, StoredRecord } from './model'

export interface Addresses {
  kafka: string
  http: string
  mqtt: string
  amqp: string
  login: boolean
}

/** Where clients reach the node; the host is the one that the browser has used. */
export function addresses(info: Info, origin: string, login: boolean): Addresses {
  const host = new URL(origin).hostname
  const at = (listener: string): string => {
    const place = info[listener]
    return typeof place === 'string' ? place.replace(/^(0\.0\.0\.0|\[::\]|::)(?=:\d+$)/, host) : ''
  }
  return { kafka: at('kafka'), http: origin, mqtt: at('mqtt'), amqp: at('amqp'), login }
}

/** A text as one word of a POSIX shell. */
export function quoted(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}

export function readOne(topic: string, record: StoredRecord, at: Addresses): Record<string, string> {
  const { partition, offset } = record
  const login = at.login ? ' -u USER:PASSWORD' : ''
  const sasl = at.login ? ' -X security.protocol=SASL_PLAINTEXT -X sasl.mechanism=SCRAM-SHA-512 -X sasl.username=USER -X sasl.password=PASSWORD' : ''
  const url = `${at.http}/v1/topics/${encodeURIComponent(topic)}/records?partition=${partition}&offset=${offset}&max_records=1`
  return {
    kcat: `kcat -b ${at.kafka} -C -t ${quoted(topic)} -p ${partition} -o ${offset} -c 1${sasl}`,
    curl: `curl -s${login} ${quoted(url)}`,
    Python: [
      'from confluent_kafka import Consumer, TopicPartition',
      '',
      `consumer = Consumer({"bootstrap.servers": "${at.kafka}", "group.id": "console"${python_login(at)}})`,
      `consumer.assign([TopicPartition(${JSON.stringify(topic)}, ${partition}, ${offset})])`,
      'print(consumer.poll(10).value())',
      'consumer.close()',
    ].join('\n'),
  }
}

export function sendOne(topic: string, record: { key: string; value: string }, at: Addresses): Record<string, string> {
  const login = at.login ? ' -u USER:PASSWORD' : ''
  const body = JSON.stringify(record.key === '' ? { value: record.value } : record)
  const key = record.key === '' ? '' : ` -k ${quoted(record.key)}`
  return {
    kcat: `printf %s ${quoted(record.value)} | kcat -b ${at.kafka} -P -t ${quoted(topic)}${key}`,
    curl: `curl -s${login} -X POST ${quoted(`${at.http}/v1/topics/${encodeURIComponent(topic)}/records`)} \\\n     -H 'content-type: application/json' -d ${quoted(body)}`,
    Python: [
      'from confluent_kafka import Producer',
      '',
      `producer = Producer({"bootstrap.servers": "${at.kafka}"${python_login(at)}})`,
      `producer.produce(${JSON.stringify(topic)}, key=${record.key === '' ? 'None' : JSON.stringify(record.key)}, value=${JSON.stringify(record.value)})`,
      'producer.flush()',
    ].join('\n'),
  }
}

function python_login(at: Addresses): string {
  if (!at.login) return ''
  return ', "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "USER", "sasl.password": "PASSWORD"'
}

export function connect(at: Addresses): Record<string, string> {
  const [mqttHost = '', mqttPort = ''] = split(at.mqtt)
  const properties = at.login
    ? '\nprops.put("security.protocol", "SASL_PLAINTEXT");\nprops.put("sasl.mechanism", "SCRAM-SHA-512");\nprops.put("sasl.jaas.config",\n  "org.apache.kafka.common.security.scram.ScramLoginModule required username=\\"USER\\" password=\\"PASSWORD\\";");'
    : ''
  return {
    kcat: sendOne('orders', { key: 'k1', value: 'hello' }, at).kcat ?? '',
    Python: sendOne('orders', { key: 'k1', value: 'hello' }, at).Python ?? '',
    Java: `Properties props = new Properties();\nprops.put("bootstrap.servers", "${at.kafka}");${properties}\nprops.put("key.serializer", StringSerializer.class.getName());\nprops.put("value.serializer", StringSerializer.class.getName());\ntry (var producer = new KafkaProducer<String, String>(props)) {\n  producer.send(new ProducerRecord<>("orders", "k1", "hello")).get();\n}`,
    JavaScript: `import { Kafka } from 'kafkajs'\n\nconst kafka = new Kafka({ brokers: ['${at.kafka}']${at.login ? ", sasl: { mechanism: 'scram-sha-512', username: 'USER', password: 'PASSWORD' }" : ''} })\nconst producer = kafka.producer()\nawait producer.connect()\nawait producer.send({ topic: 'orders', messages: [{ key: 'k1', value: 'hello' }] })\nawait producer.disconnect()`,
    Go: `client, err := kgo.NewClient(kgo.SeedBrokers("${at.kafka}"))\nif err != nil { panic(err) }\ndefer client.Close()\nrecord := &kgo.Record{Topic: "orders", Key: []byte("k1"), Value: []byte("hello")}\nif err := client.ProduceSync(ctx, record).FirstErr(); err != nil { panic(err) }`,
    curl: sendOne('orders', { key: 'k1', value: 'hello' }, at).curl ?? '',
    Browser: `const socket = new WebSocket('${at.http.replace(/^http/, 'ws')}/ws', 'chordmq.json')\nsocket.onopen = () => socket.send(JSON.stringify({ type: 'subscribe', id: 1, topic: 'orders', start: 'earliest' }))\nsocket.onmessage = ({ data }) => console.log(JSON.parse(data))`,
    MQTT: `mosquitto_sub -h ${mqttHost} -p ${mqttPort} -t 'iotsphere/devices/#' -v${at.login ? ' -u USER -P PASSWORD' : ''} &\nmosquitto_pub -h ${mqttHost} -p ${mqttPort} -t iotsphere/devices/oven-1/telemetry/temperature -m 21.5 -q 1${at.login ? ' -u USER -P PASSWORD' : ''}`,
    AMQP: `import pika\n\nconnection = pika.BlockingConnection(pika.URLParameters("amqp://${at.login ? 'USER:PASSWORD' : 'guest:guest'}@${at.amqp}/"))\nchannel = connection.channel()\nchannel.queue_declare("orders", durable=True)\nchannel.basic_publish("", "orders", b"hello")`,
  }
}

function split(address: string): string[] {
  const at = address.lastIndexOf(':')
  return [address.slice(0, at), address.slice(at + 1)]
}
