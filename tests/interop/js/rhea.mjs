// rhea (AMQP 1.0), unmodified: many messages with their types, credit by hand, outcomes, a topic from its beginning, request and reply.
import assert from 'node:assert/strict';
import rhea from 'rhea';

const [, , port, name] = process.argv;
const container = rhea.create_container();
container.on('error', (error) => { throw error; });
const connection = container.connect({ host: '127.0.0.1', port: Number(port), reconnect: false });
await event(connection, 'connection_open');

function event(emitter, what) {
  return new Promise((resolve) => { emitter.once(what, resolve); });
}

async function sent(target, messages) {
  const sender = connection.open_sender(typeof target === 'string' ? target : { target });
  let accepted = 0;
  const all = new Promise((resolve, reject) => {
    sender.on('accepted', () => { accepted += 1; if (accepted === messages.length) resolve(); });
    sender.on('rejected', (context) => reject(context.delivery.remote_state.error));
  });
  const left = [...messages];
  const pump = () => { while (left.length && sender.sendable()) sender.send(left.shift()); };
  sender.on('sendable', pump);
  pump();
  await all;
  sender.close();
}

async function queue() {
  const address = { address: name, capabilities: ['queue'] };
  const bodies = Array.from({ length: 3000 }, (_, number) => ({ number, half: 0.5, text: `ü${number}` }));
  await sent(address, bodies.map((body) => ({ body, message_id: body.number, durable: true })));
  const receiver = connection.open_receiver({ source: address, credit_window: 0, autoaccept: false });
  receiver.add_credit(100);
  const found = [];
  await new Promise((resolve) => {
    receiver.on('message', ({ message, delivery }) => {
      const { number } = message.body;
      if (number === 7 && !message.delivery_count) {
        delivery.modified({ delivery_failed: true });
      } else {
        assert.deepEqual(message.body, bodies[message.message_id]);
        delivery.accept();
        found.push(number);
      }
      receiver.add_credit(1);
      if (found.length === bodies.length) resolve();
    });
  });
  assert.deepEqual([...found].sort((a, b) => a - b), bodies.map((body) => body.number));
  receiver.close();
}

async function topic() {
  await sent(`${name}-topic`, ['a', 'b', 'c'].map((body) => ({ body })));
  const filter = { 'rabbitmq:stream-offset-spec': rhea.types.wrap_described('first', 'rabbitmq:stream-offset-spec') };
  const receiver = connection.open_receiver({ source: { address: `${name}-topic`, filter } });
  const found = [];
  await new Promise((resolve) => {
    receiver.on('message', ({ message }) => {
      found.push([message.body, Number(message.message_annotations['x-stream-offset'])]);
      if (found.length === 3) resolve();
    });
  });
  assert.deepEqual(found, [['a', 0], ['b', 1], ['c', 2]]);
  receiver.close();
}

async function reply() {
  const answers = connection.open_receiver({ source: { dynamic: true } });
  await event(answers, 'receiver_open');
  const server = connection.open_receiver({ source: { address: `${name}-rpc`, capabilities: ['queue'] } });
  await event(server, 'receiver_open');
  server.on('message', ({ message }) => {
    const answer = connection.open_sender(message.reply_to);
    answer.once('sendable', () => {
      answer.send({ body: message.body.toUpperCase(), correlation_id: message.message_id });
    });
  });
  await sent(`/queues/${name}-rpc`, [{ body: 'hello', message_id: 5, reply_to: answers.source.address }]);
  const { message } = await event(answers, 'message');
  assert.deepEqual([message.body, message.correlation_id], ['HELLO', 5]);
}

async function refused() {
  const sender = connection.open_sender('/queues/none');
  const { sender: { error } } = await event(sender, 'sender_error');
  assert.equal(error.condition, 'amqp:not-found');
}

await queue();
await topic();
await reply();
await refused();
connection.close();
await event(connection, 'connection_close');
