"""One channel of a connection: its consumers, what they have got, its confirms and transaction."""

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from pamqp import commands

from chordmq.broker.queues.entries import Entry, Stretch
from chordmq.broker.queues.queue import Queue
from chordmq.codecs.amqp.content import Envelope, with_headers
from chordmq.codecs.amqp.frames import (
    ACK,
    Publish,
    Settle,
    all_delivery_frames,
    content_frames,
    deliver_frame,
    delivery_frames,
    method_frame,
    short,
)
from chordmq.fronts.amqp.confirms import Confirms
from chordmq.fronts.amqp.errors import Fault
from chordmq.fronts.amqp.unsettled import Span, Unsettled

if TYPE_CHECKING:
    from chordmq.fronts.amqp.connection import AmqpConnection
    from chordmq.fronts.amqp.streams import StreamConsumer

DELIVERY_COUNT = "x-delivery-count"


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
        self.in_bulk = self
        self.order = channel
        self.link = channel.connection
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
            envelope = shown(queue, envelope, entry.deliveries)
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
            channel.unacked.add(Span(channel.tag, entry, queue, self))

    def room(self) -> int:
        """Return how many messages the client can take, as far as they are counted."""
        channel = self.channel
        if self.no_ack:
            return sys.maxsize
        room = (channel.limit or channel.unacked_max) - len(channel.unacked)
        return min(room, self.limit - self.unacked) if self.limit else room

    def deliver_stretch(self, queue: Queue, stretch: Stretch) -> None:
        """Send messages that are delivered for the first time."""
        channel, envelope = self.channel, stretch.envelope
        if envelope.properties.headers:
            envelope = shown(queue, envelope, 1)
        connection, first = channel.connection, channel.tag + 1
        channel.tag += len(stretch)
        message = (envelope.route, envelope.properties.raw)
        place = (channel.number, self._tag, first)
        connection.send(all_delivery_frames(*place, message, stretch.bodies, connection.frame_max))
        connection.front.messages_out += len(stretch)
        if self.no_ack:
            queue.finish_stretch(stretch)
        else:
            if not stretch.source.partition.is_absent:
                stretch.bodies = []  # read again if they come back
            self.unacked += len(stretch)
            channel.unacked.add(Span(first, stretch, queue, self))

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
        self.unacked = Unsettled()
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
            self.unacked.add(Span(self.tag, entry, queue, None))

    def settle(self, event: Settle) -> None:
        """Apply an acknowledgement, or put it off to the commit."""
        if self.transaction is not None:
            self._check(event)
            self.transaction.append(event)
            return
        self.apply(event)

    def apply(self, event: Settle) -> None:
        """Settle messages."""
        self._check(event)
        found = self._taken(event)
        for span in found:
            self._thirst(span)
        if event.is_done:
            finish(found)
        elif event.requeue:
            requeue(found)
        else:
            for span in found:
                for message in span.messages():
                    span.queue.reject(message)

    def _thirst(self, span: Span) -> None:
        """Take note that there is room for as many other messages."""
        if span.consumer is not None:
            span.consumer.unacked -= len(span)
        if self.limit:  # room for all consumers of the channel
            self.connection.thirsty.update(dict.fromkeys(c.queue for c in self.consumers.values()))
        else:
            self.connection.thirsty[span.queue] = None

    def _check(self, event: Settle) -> None:
        """Raise a fault if the client has not got what it settles."""
        tag, unacked = event.tag, self.unacked
        if event.multiple:
            is_known = not tag or (tag <= self.tag and unacked.first <= tag)
        else:
            is_known = tag in unacked
        if not is_known:
            raise Fault(406, f"unknown delivery tag {tag}", ACK)

    def _taken(self, event: Settle) -> list[Span]:
        if event.multiple:
            return self.unacked.take_until(event.tag) if event.tag else self.unacked.take_all()
        span = self.unacked.take(event.tag)
        return [] if span is None else [span]

    def recover(self) -> None:
        """Give back all that is not settled."""
        found = self.unacked.take_all()
        for span in found:
            if span.consumer is not None:
                span.consumer.unacked -= len(span)
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


def shown(queue: Queue, envelope: Envelope, deliveries: int) -> Envelope:
    """Return the envelope that a consumer sees."""
    headers = envelope.properties.headers
    if queue.rules.type == "quorum" and deliveries > 1:
        headers = dict(headers) | {DELIVERY_COUNT: deliveries - 1}
    elif "BCC" not in headers:
        return envelope
    seen = {name: value for name, value in headers.items() if name != "BCC"}
    properties = with_headers(envelope.properties, seen)
    return Envelope(envelope.vhost, envelope.exchange, envelope.key, properties)


def finish(found: Iterable[Span]) -> None:
    """Take messages as done, those of one queue together."""
    by_queue: dict[Queue | StreamConsumer, list[Any]] = {}
    for span in found:
        if isinstance(span.held, Stretch):
            span.queue.finish_stretch(span.held)
        else:
            by_queue.setdefault(span.queue, []).append(span.held)
    for queue, entries in by_queue.items():
        queue.finish_all(entries)


def requeue(found: Iterable[Span]) -> None:
    """Put messages back into their queues."""
    by_queue: dict[Queue | StreamConsumer, list[Any]] = {}
    for span in found:
        by_queue.setdefault(span.queue, []).extend(span.messages())
    for queue, entries in by_queue.items():
        if not queue.is_deleted:
            queue.requeue(entries)
