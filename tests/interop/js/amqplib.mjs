// amqplib, unmodified: confirms, a topic exchange, prefetch, nack, dead letters, RPC by direct reply-to.
import assert from 'node:assert/strict';
import amqp from 'amqplib';

const [, , port, name] = process.argv;
const connection = await amqp.connect(`amqp://guest:guest@127.0.0.1:${port}`);

async function routed() {
  const channel = await connection.createConfirmChannel();
  await channel.assertExchange(name, 'topic', { durable: true });
  await channel.assertQueue(name, { durable: true, deadLetterExchange: '', deadLetterRoutingKey: `${name}.dead` });
  await channel.assertQueue(`${name}.dead`, { durable: true });
  await channel.bindQueue(name, name, 'a.*');
  for (let number = 0; number < 50; number += 1) {
    channel.publish(name, `a.${number}`, Buffer.from(String(number)), { persistent: true, headers: { number, half: 0.5 } });
  }
  await channel.waitForConfirms();
  await channel.prefetch(5);
  const found = [];
  await new Promise((resolve) => {
    channel.consume(name, (message) => {
      const body = message.content.toString();
      assert.equal(message.properties.headers.half, 0.5);
      found.push(body);
      if (body === '7') channel.nack(message, false, false);
      else if (body === '9' && !message.fields.redelivered) channel.nack(message, false, true);
      else channel.ack(message);
      if (found.length === 51) resolve();
    });
  });
  assert.equal(found.filter((body) => body === '9').length, 2);
  let dead = false;
  while (!dead) dead = await channel.get(`${name}.dead`, { noAck: true });
  assert.equal(dead.properties.headers['x-death'][0].reason, 'rejected');
  assert.equal(dead.properties.headers.number, 7);
  await channel.close();
}

async function asked() {
  const channel = await connection.createChannel();
  const { queue } = await channel.assertQueue('', { exclusive: true });
  await channel.consume(queue, (message) => {
    channel.sendToQueue(message.properties.replyTo, Buffer.from(`${message.content}!`), { correlationId: message.properties.correlationId });
    channel.ack(message);
  });
  const answer = new Promise((resolve) => {
    channel.consume('amq.rabbitmq.reply-to', resolve, { noAck: true });
  });
  channel.sendToQueue(queue, Buffer.from('who'), { replyTo: 'amq.rabbitmq.reply-to', correlationId: 'c1' });
  const message = await answer;
  assert.equal(message.content.toString(), 'who!');
  assert.equal(message.properties.correlationId, 'c1');
}

async function refused() {
  const channel = await connection.createChannel();
  const closed = new Promise((resolve) => { channel.on('error', resolve); });
  await assert.rejects(channel.checkQueue(`${name}.none`));
  assert.equal((await closed).code, 404);
}

await routed();
await asked();
await refused();
await connection.close();
