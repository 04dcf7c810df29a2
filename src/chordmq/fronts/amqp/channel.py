"""One channel of a connection: its consumers, what they have got, its confirms and transaction."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from pamqp import commands

from chordmq.broker.queues.queue import Entry, Queue
from chordmq.codecs.amqp.content import Envelope, with_headers
from chordmq.codecs.amqp.frames import (
    ACK,
    Publish,
    Settle,
    content_frames,
    deliver_frame,
    delivery_frames,
    method_frame,
    short,
)
from chordmq.fronts.amqp.confirms import Confirms
from chordmq.fronts.amqp.errors import Fault

if TYPE_CHECKING:
    from chordmq.fronts.amqp.connection import AmqpConnection
    from chordmq.fronts.amqp.streams import StreamConsumer

DELIVERY_COUNT = "x-delivery-count"


class Unacked(NamedTuple):
    """A message that the client has and has not settled; got by a consumer, or by basic.get."""

    queue: "Queue | StreamConsumer"
    entry: Any
    consumer: "ChannelConsumer | StreamConsumer | None"


_new = tuple.__new__  # half the time of calling the class


class ChannelConsumer:
    """One consumer; its messages are framed at once and sent at the end of the turn."""

    def __init__(
        self, channel: "Channel", tag: str, queue: Queue, *, no_ack: bool, priority: int = 0
    ) -> None:
        self.channel = channel
        self.tag = tag
        self.queue = queue
        self.no_ack = no_ack
        self.priority = priority
        self.limit = channel.limit_of_consumers
        self.unacked = 0
        self._tag = short(tag)

    @property
    def client_id(self) -> str:
        """Return the id of the client."""
        return self.channel.connection.number

    def has_room(self) -> bool:
        """Return whether the client can take one message more."""
        channel = self.channel
        if not self.no_ack and (
            (self.limit and self.unacked >= self.limit)
            or len(channel.unacked) >= (channel.limit or channel.unacked_max)
        ):
            return False
        return channel.is_flowing and channel.connection.has_room

    def deliver(self, queue: Queue, entry: Entry) -> None:
        """Send a message."""
        channel = self.channel
        channel.tag += 1
        connection = channel.connection
        is_repeated = entry.deliveries > 1
        envelope = entry.envelope
        if is_repeated or envelope.properties.headers:
            envelope = delivered(queue, entry)
        message = (envelope.route, envelope.properties.raw, entry.body or b"")
        place = (channel.number, self._tag, channel.tag)
        connection.send(delivery_frames(*place, is_repeated, message, connection.frame_max))
        connection.front.messages_out += 1
        if self.no_ack:
            queue.finish(entry)
        else:
            if not entry.source.partition.is_absent:
                entry.body = None  # read again if it comes back
            self.unacked += 1
            channel.unacked[channel.tag] = _new(Unacked, (queue, entry, self))

    def cancelled(self) -> None:
        """Tell the client that the queue is no more."""
        self.channel.cancelled(self.tag)

    def leave(self) -> None:
        """Take no more messages."""
        self.channel.connection.front.queues.leave(self.queue, self)


class Channel:
    """What a client does on one channel."""

    def __init__(self, connection: "AmqpConnection", number: int) -> None:
        self.connection = connection
        self.number = number
        self.is_closing = False
        """Whether the client was told that it is closed, and has not agreed yet."""
        self.is_flowing = True
        self.tag = 0
        self.unacked: dict[int, Unacked] = {}
        self.unacked_max = connection.front.settings.unacknowledged_max
        self.consumers: dict[str, ChannelConsumer | StreamConsumer] = {}
        self.limit = 0
        """Messages that all consumers together may hold; 0 for no limit."""
        self.limit_of_consumers = 0
        """Messages that each consumer to come may hold."""
        self.last_queue = ""
        """The queue that was declared last, for methods that name none."""
        self.confirms: Confirms | None = None
        self.transaction: list[Publish | Settle] | None = None
        """What is to be done at the next commit; None without transactions."""
        self.reply_consumer: ReplyConsumer | None = None

    def got(self, queue: Queue, entry: Entry, *, no_ack: bool) -> None:
        """Take note of a message that the client has asked for."""
        if no_ack:
            queue.finish(entry)
        else:
            if not entry.source.partition.is_absent:
                entry.body = None
            self.unacked[self.tag] = Unacked(queue, entry, None)

    def settle(self, event: Settle) -> None:
        """Apply an acknowledgement, or put it off to the commit."""
        if self.transaction is not None:
            self._tags(event)
            self.transaction.append(event)
            return
        self.apply(event)

    def apply(self, event: Settle) -> None:
        """Settle messages."""
        pop = self.unacked.pop
        found = [pop(tag) for tag in self._tags(event)]
        if event.is_done:
            self._finish(found)
            return
        for queue, _, consumer in found:
            self._thirst(queue, consumer)
        if event.requeue:
            requeue(found)
        else:
            for queue, entry, _ in found:
                queue.reject(entry)

    def _finish(self, found: list[Unacked]) -> None:
        """Take messages as done, those of one queue and consumer together."""
        together: dict[tuple[Any, Any], list[Any]] = {}
        for queue, entry, consumer in found:
            together.setdefault((queue, consumer), []).append(entry)
        for (queue, consumer), entries in together.items():
            queue.finish_all(entries)
            self._thirst(queue, consumer, len(entries))

    def _thirst(
        self,
        queue: "Queue | StreamConsumer",
        consumer: "ChannelConsumer | StreamConsumer | None",
        count: int = 1,
    ) -> None:
        if consumer is not None:
            consumer.unacked -= count
        if self.limit:  # room for all consumers of the channel
            self.connection.thirsty.update(dict.fromkeys(c.queue for c in self.consumers.values()))
        else:
            self.connection.thirsty[queue] = None

    def _tags(self, event: Settle) -> Iterable[int]:
        tag = event.tag
        if not event.multiple:
            if tag not in self.unacked:
                raise Fault(406, f"unknown delivery tag {tag}", ACK)
            return (tag,)
        if tag and tag not in self.unacked and tag > self.tag:
            raise Fault(406, f"unknown delivery tag {tag}", ACK)
        found = []
        for one in self.unacked:
            if tag and one > tag:
                break
            found.append(one)
        if not found and tag:
            raise Fault(406, f"unknown delivery tag {tag}", ACK)
        return found

    def recover(self) -> None:
        """Give back all that is not settled."""
        found = list(self.unacked.values())
        self.unacked.clear()
        for _, _, consumer in found:
            if consumer is not None:
                consumer.unacked -= 1
        requeue(found)

    def cancel(self, tag: str) -> None:
        """End a consumer; what it has got stays its own."""
        consumer = self.consumers.pop(tag, None)
        if consumer is not None:
            consumer.leave()
        elif self.reply_consumer is not None and self.reply_consumer.tag == tag:
            self._end_replies()

    def cancelled(self, tag: str) -> None:
        """Tell the client that what it consumes is no more."""
        self.consumers.pop(tag, None)
        if self.connection.wants("consumer_cancel_notify"):
            cancel = commands.Basic.Cancel(consumer_tag=tag, nowait=True)
            self.connection.send(method_frame(self.number, cancel))

    def _end_replies(self) -> None:
        if self.reply_consumer is not None:
            self.connection.front.replies.pop(self.reply_consumer.name, None)
            self.reply_consumer = None

    def close(self) -> None:
        """Give everything back."""
        self.is_closing = True
        for tag in list(self.consumers):
            self.cancel(tag)
        self.recover()
        self._end_replies()
        self.confirms = None
        self.connection.reader.forget(self.number)

    def reply(self, envelope: Envelope, body: bytes) -> None:
        """Send an answer to whoever consumes direct replies on this channel."""
        consumer = self.reply_consumer
        if consumer is None or self.is_closing:
            return
        self.tag += 1
        head = deliver_frame(self.number, short(consumer.tag), self.tag, False, envelope.route)
        raw = envelope.properties.raw
        frames = content_frames(self.number, raw, body, self.connection.frame_max)
        self.connection.send(head + frames)


class ReplyConsumer(NamedTuple):
    """A consumer of direct replies."""

    tag: str
    name: str
    """What answers are sent to."""


def delivered(queue: Queue, entry: Entry) -> Envelope:
    """Return the envelope that a consumer sees."""
    envelope = entry.envelope
    headers = envelope.properties.headers
    if queue.rules.type == "quorum" and entry.deliveries > 1:
        headers = dict(headers) | {DELIVERY_COUNT: entry.deliveries - 1}
    elif "BCC" not in headers:
        return envelope
    shown = {name: value for name, value in headers.items() if name != "BCC"}
    properties = with_headers(envelope.properties, shown)
    return Envelope(envelope.vhost, envelope.exchange, envelope.key, properties)


def requeue(found: Iterable[Unacked]) -> None:
    """Put messages back into their queues."""
    by_queue: dict[Queue | StreamConsumer, list[Any]] = {}
    for queue, entry, _ in found:
        by_queue.setdefault(queue, []).append(entry)
    for queue, entries in by_queue.items():
        if not queue.is_deleted:
            queue.requeue(entries)
