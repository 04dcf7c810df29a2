"""What each method of a channel does: declare, bind, consume, get, recover, select, commit."""

import secrets
from collections.abc import Awaitable, Callable
from typing import Any

from pamqp import base, commands

from chordmq.broker.queues.arguments import STREAM
from chordmq.broker.queues.exchanges import (
    ALTERNATE,
    DEFAULT,
    PREDECLARED,
    TYPES,
    Binding,
    Exchange,
)
from chordmq.broker.queues.places import filter_of_pattern
from chordmq.broker.queues.queue import Queue, QueueFacts
from chordmq.broker.queues.streams import Stream
from chordmq.broker.queues.virtual_host import HIERARCHICAL
from chordmq.broker.security.acl import ANY, Operation
from chordmq.codecs.amqp.frames import Publish, content_frames, method_frame
from chordmq.errors import UnknownQueue
from chordmq.fronts.amqp.channel import Channel, ChannelConsumer, ReplyConsumer, shown
from chordmq.fronts.amqp.confirms import Confirms
from chordmq.fronts.amqp.errors import Fault
from chordmq.fronts.amqp.front import REPLY_TO
from chordmq.fronts.amqp.streams import StreamConsumer, consume_stream, refused

Basic, Queues, Exchanges = commands.Basic, commands.Queue, commands.Exchange

NAME_PREFIX = "amq."


def reply(channel: Channel, method: base.Frame) -> None:
    """Send a method."""
    channel.connection.send(method_frame(channel.number, method))


def check(channel: Channel, operation: Operation, name: str) -> None:
    """Raise an error unless the client may do this with an exchange or queue."""
    channel.connection.check(operation, channel.connection.vhost.topic_if_known(name))


def check_target(channel: Channel, exchange: object) -> None:
    """Raise an error unless the client may publish to where its messages would be led."""
    if isinstance(exchange, str) and exchange:
        check(channel, Operation.WRITE, exchange)


def check_pattern(channel: Channel, pattern: str) -> None:
    """Raise an error unless the client may read the log topics that a pattern of keys means."""
    wanted = filter_of_pattern(pattern).split("/")[:2]
    if "#" in wanted or "+" in wanted or len(wanted) < 2:
        channel.connection.check(Operation.READ, ANY)
    else:
        names = channel.connection.front.queues.publishing.names
        channel.connection.check(Operation.READ, names.destination("/".join(wanted)).topic)


def named(channel: Channel, name: str) -> str:
    """Return a queue's name; an empty one is that of the queue declared last."""
    if name:
        return name
    if not channel.last_queue:
        raise Fault(404, "no previously declared queue")
    return channel.last_queue


def find(channel: Channel, name: str) -> Queue:
    """Return a queue that this connection may use."""
    connection = channel.connection
    return connection.vhost.queue(named(channel, name), connection)


async def declare_exchange(channel: Channel, method: commands.Exchange.Declare) -> None:
    """Make an exchange, or see whether it is there."""
    vhost, name = channel.connection.vhost, method.exchange
    if method.passive:
        if name != DEFAULT:
            vhost.exchange(name)
    elif name == DEFAULT:
        raise Fault(403, "operation not permitted on the default exchange")
    else:
        if method.exchange_type not in TYPES:
            raise Fault(406, f"invalid exchange type '{method.exchange_type}'")
        if name.startswith(NAME_PREFIX) and name not in PREDECLARED:
            raise Fault(403, f"exchange name '{name}' contains the reserved prefix 'amq.'")
        if vhost.exchanges.find(name) is None:
            check(channel, Operation.CREATE, name)
            check_target(channel, (method.arguments or {}).get(ALTERNATE))
        wanted = Exchange(
            name=name,
            type=method.exchange_type,
            durable=method.durable,
            auto_delete=method.auto_delete,
            internal=method.internal,
            arguments=dict(method.arguments or {}),
        )
        await channel.connection.front.queues.declare_exchange(vhost, wanted)
    if not method.nowait:
        reply(channel, Exchanges.DeclareOk())


async def delete_exchange(channel: Channel, method: commands.Exchange.Delete) -> None:
    """Remove an exchange."""
    vhost, name = channel.connection.vhost, method.exchange
    if name == DEFAULT or name in PREDECLARED:
        raise Fault(403, f"operation not permitted on the exchange '{name}'")
    if vhost.exchanges.find(name) is not None:
        check(channel, Operation.DELETE, name)
    await channel.connection.front.queues.delete_exchange(vhost, name, if_unused=method.if_unused)
    if not method.nowait:
        reply(channel, Exchanges.DeleteOk())


async def bind_exchange(channel: Channel, method: commands.Exchange.Bind) -> None:
    """Lead messages from one exchange to another."""
    await channel.connection.front.queues.bind(
        channel.connection.vhost, exchange_binding(channel, method)
    )
    if not method.nowait:
        reply(channel, Exchanges.BindOk())


async def unbind_exchange(channel: Channel, method: commands.Exchange.Unbind) -> None:
    """End a binding between exchanges."""
    await channel.connection.front.queues.unbind(
        channel.connection.vhost, exchange_binding(channel, method)
    )
    if not method.nowait:
        reply(channel, Exchanges.UnbindOk())


def exchange_binding(
    channel: Channel, method: commands.Exchange.Bind | commands.Exchange.Unbind
) -> Binding:
    """Return the binding that a method means, if its ends are there."""
    vhost = channel.connection.vhost
    for name in (method.source, method.destination):
        if name == DEFAULT:
            raise Fault(403, "operation not permitted on the default exchange")
        vhost.exchange(name)
    check(channel, Operation.READ, method.source)
    check(channel, Operation.WRITE, method.destination)
    if method.source == HIERARCHICAL and channel.connection.vhost.has_hierarchy:
        check_pattern(channel, method.routing_key)
    return Binding(
        source=method.source,
        destination=method.destination,
        to_queue=False,
        key=method.routing_key,
        arguments=dict(method.arguments or {}),
    )


async def declare_queue(channel: Channel, method: commands.Queue.Declare) -> None:
    """Make a queue, or see whether it is there and how much is in it."""
    connection = channel.connection
    queues = connection.front.queues
    if method.passive:
        queue = find(channel, method.queue)
        queues.used(queue)
    else:
        name = method.queue
        if not name:
            if (method.arguments or {}).get("x-queue-type") == STREAM:
                raise Fault(406, "a stream cannot be named by the server")
            name = f"amq.gen-{secrets.token_urlsafe(16)}"
        elif name.startswith(NAME_PREFIX) and name not in connection.vhost.queues:
            raise Fault(403, f"queue name '{name}' contains the reserved prefix 'amq.'")
        if name not in connection.vhost.queues:
            check(channel, Operation.CREATE, name)
            check_target(channel, (method.arguments or {}).get("x-dead-letter-exchange"))
        wanted = QueueFacts(
            vhost=connection.vhost.name,
            name=name,
            durable=method.durable,
            exclusive=method.exclusive,
            auto_delete=method.auto_delete,
            arguments=dict(method.arguments or {}),
        )
        queue = await queues.declare_queue(connection.vhost, wanted, connection)
    channel.last_queue = queue.name
    if not method.nowait:
        reply(channel, Queues.DeclareOk(queue.name, queue.ready, len(queue.consumers)))


async def delete_queue(channel: Channel, method: commands.Queue.Delete) -> None:
    """Remove a queue with its messages."""
    count = 0
    try:
        queue = find(channel, method.queue)
    except UnknownQueue:
        queue = None
    if queue is not None:
        check(channel, Operation.DELETE, queue.name)
        count = await channel.connection.front.queues.delete_queue(
            queue, if_unused=method.if_unused, if_empty=method.if_empty
        )
    if not method.nowait:
        reply(channel, Queues.DeleteOk(count))


async def purge_queue(channel: Channel, method: commands.Queue.Purge) -> None:
    """Take all that waits in a queue as done."""
    queue = find(channel, method.queue)
    check(channel, Operation.READ, queue.name)
    if isinstance(queue, Stream):
        raise refused(queue, "queue.purge")
    count = queue.purge()
    if not method.nowait:
        reply(channel, Queues.PurgeOk(count))


async def bind_queue(channel: Channel, method: commands.Queue.Bind) -> None:
    """Lead messages from an exchange to a queue."""
    await channel.connection.front.queues.bind(
        channel.connection.vhost, queue_binding(channel, method)
    )
    if not method.nowait:
        reply(channel, Queues.BindOk())


async def unbind_queue(channel: Channel, method: commands.Queue.Unbind) -> None:
    """End a binding of a queue."""
    await channel.connection.front.queues.unbind(
        channel.connection.vhost, queue_binding(channel, method)
    )
    reply(channel, Queues.UnbindOk())


def queue_binding(channel: Channel, method: commands.Queue.Bind | commands.Queue.Unbind) -> Binding:
    """Return the binding that a method means, if its ends are there."""
    queue = find(channel, method.queue)
    if method.exchange == DEFAULT:
        raise Fault(403, "operation not permitted on the default exchange")
    channel.connection.vhost.exchange(method.exchange)
    check(channel, Operation.READ, method.exchange)
    check(channel, Operation.WRITE, queue.name)
    if method.exchange == HIERARCHICAL and channel.connection.vhost.has_hierarchy:
        check_pattern(channel, method.routing_key)
    key = method.routing_key
    if not key and not method.queue:
        key = queue.name
    return Binding(
        source=method.exchange,
        destination=queue.name,
        to_queue=True,
        key=key,
        arguments=dict(method.arguments or {}),
    )


async def set_limits(channel: Channel, method: commands.Basic.Qos) -> None:
    """Limit how many messages the client may hold: each consumer to come, or the channel."""
    if method.prefetch_size:
        raise Fault(540, "prefetch_size is not there; use prefetch_count")
    if method.global_:
        channel.limit = method.prefetch_count
        for consumer in channel.consumers.values():
            channel.connection.thirsty[consumer.queue] = None
    else:
        channel.limit_of_consumers = method.prefetch_count
    reply(channel, Basic.QosOk())


async def consume(channel: Channel, method: commands.Basic.Consume) -> None:
    """Push a queue's messages to the client from now on."""
    connection = channel.connection
    tag = method.consumer_tag or f"amq.ctag-{secrets.token_urlsafe(16)}"
    if tag in channel.consumers:
        raise Fault(530, f"attempt to reuse consumer tag '{tag}'")
    if method.queue == REPLY_TO:
        consume_replies(channel, tag, method)
        return
    queue = find(channel, method.queue)
    check(channel, Operation.READ, queue.name)
    consumer: ChannelConsumer | StreamConsumer
    if isinstance(queue, Stream):
        consumer = await consume_stream(channel, tag, queue, method)
    else:
        consumer = consume_queue(channel, tag, queue, method)
    channel.consumers[tag] = consumer
    if not method.nowait:
        reply(channel, Basic.ConsumeOk(consumer_tag=tag))
    connection.thirsty[consumer.queue] = None


def consume_queue(
    channel: Channel, tag: str, queue: Queue, method: commands.Basic.Consume
) -> ChannelConsumer:
    """Let the client share a queue's messages."""
    priority = (method.arguments or {}).get("x-priority", 0)
    if not isinstance(priority, int):
        raise Fault(406, f"invalid arg 'x-priority': {priority!r} is no whole number")
    consumer = ChannelConsumer(channel, tag, queue, no_ack=method.no_ack, priority=priority)
    channel.connection.front.queues.consume(queue, consumer, exclusive=method.exclusive)
    return consumer


def consume_replies(channel: Channel, tag: str, method: commands.Basic.Consume) -> None:
    """Let the client have answers that are sent straight to it."""
    if not method.no_ack:
        raise Fault(406, "reply consumer cannot acknowledge")
    if channel.reply_consumer is not None:
        raise Fault(406, "reply consumer already set")
    channel.reply_consumer = ReplyConsumer(tag, channel.connection.reply_name_of(channel))
    if not method.nowait:
        reply(channel, Basic.ConsumeOk(consumer_tag=tag))


async def cancel(channel: Channel, method: commands.Basic.Cancel) -> None:
    """End a consumer."""
    tag = method.consumer_tag or ""
    channel.cancel(tag)
    if not method.nowait:
        reply(channel, Basic.CancelOk(consumer_tag=tag))


async def get(channel: Channel, method: commands.Basic.Get) -> None:
    """Give the client the next message of a queue, if there is one."""
    connection = channel.connection
    queue = find(channel, method.queue)
    check(channel, Operation.READ, queue.name)
    if isinstance(queue, Stream):
        raise refused(queue, "basic.get")
    connection.front.queues.used(queue)
    entry = queue.get()
    if entry is None:
        await connection.front.queues.following.brought(queue)
        queue = find(channel, method.queue)
        entry = queue.get()
    if entry is None:
        reply(channel, Basic.GetEmpty())
        return
    channel.tag += 1
    envelope = shown(queue, entry.envelope, entry.deliveries)
    found = Basic.GetOk(
        delivery_tag=channel.tag,
        redelivered=entry.deliveries > 1,
        exchange=envelope.exchange,
        routing_key=envelope.key,
        message_count=queue.ready,
    )
    raw, body = envelope.properties.raw, entry.body or b""
    reply(channel, found)
    connection.send(content_frames(channel.number, raw, body, connection.frame_max))
    connection.front.messages_out += 1
    channel.got(queue, entry, no_ack=method.no_ack)


async def recover(channel: Channel, method: commands.Basic.Recover) -> None:
    """Give back all that the client has not settled."""
    if not method.requeue:
        raise Fault(540, "basic.recover without requeue is not there")
    channel.recover()
    if isinstance(method, commands.Basic.Recover):
        reply(channel, Basic.RecoverOk())


async def select_confirms(channel: Channel, method: commands.Confirm.Select) -> None:
    """Confirm publications from now on."""
    if channel.transaction is not None:
        raise Fault(406, "cannot switch from tx to confirm mode")
    if channel.confirms is None:
        channel.confirms = Confirms(channel.number)
    if not method.nowait:
        reply(channel, commands.Confirm.SelectOk())


async def select_transactions(channel: Channel, method: commands.Tx.Select) -> None:
    """Put publications and acknowledgements off to the next commit."""
    if channel.confirms is not None:
        raise Fault(406, "cannot switch from confirm to tx mode")
    if channel.transaction is None:
        channel.transaction = []
    reply(channel, commands.Tx.SelectOk())


async def commit(channel: Channel, method: commands.Tx.Commit) -> None:
    """Do what was put off, and answer when it is committed."""
    if channel.transaction is None:
        raise Fault(406, "channel is not transactional")
    events, channel.transaction = channel.transaction, None
    publisher = channel.connection.publisher
    try:
        for event in events:
            if isinstance(event, Publish):
                await publisher.publish(channel, event)
        await publisher.committed()
        for event in events:
            if not isinstance(event, Publish):
                channel.apply(event)
    finally:
        channel.transaction = []
    reply(channel, commands.Tx.CommitOk())


async def roll_back(channel: Channel, method: commands.Tx.Rollback) -> None:
    """Forget what was put off."""
    if channel.transaction is None:
        raise Fault(406, "channel is not transactional")
    channel.transaction = []
    reply(channel, commands.Tx.RollbackOk())


async def set_flow(channel: Channel, method: commands.Channel.Flow) -> None:
    """Stop or resume deliveries, as the client asks."""
    if not method.active:
        raise Fault(540, "channel.flow with active=false is not there; use prefetch_count")
    reply(channel, commands.Channel.FlowOk(active=True))


Handler = Callable[[Channel, Any], Awaitable[None]]

HANDLERS: dict[type[base.Frame], Handler] = {
    commands.Exchange.Declare: declare_exchange,
    commands.Exchange.Delete: delete_exchange,
    commands.Exchange.Bind: bind_exchange,
    commands.Exchange.Unbind: unbind_exchange,
    commands.Queue.Declare: declare_queue,
    commands.Queue.Delete: delete_queue,
    commands.Queue.Purge: purge_queue,
    commands.Queue.Bind: bind_queue,
    commands.Queue.Unbind: unbind_queue,
    commands.Basic.Qos: set_limits,
    commands.Basic.Consume: consume,
    commands.Basic.Cancel: cancel,
    commands.Basic.Get: get,
    commands.Basic.Recover: recover,
    commands.Basic.RecoverAsync: recover,
    commands.Confirm.Select: select_confirms,
    commands.Tx.Select: select_transactions,
    commands.Tx.Commit: commit,
    commands.Tx.Rollback: roll_back,
    commands.Channel.Flow: set_flow,
}
