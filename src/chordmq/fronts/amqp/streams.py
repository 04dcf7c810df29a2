"""Consumers of streams: each reads the log from a place of its own, and acknowledges for more."""

import asyncio
import struct
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pamqp import commands

from chordmq.broker.bounds import NO_TIME, Extent
from chordmq.broker.feed import Feed, Offsets
from chordmq.broker.queues.entries import Entry
from chordmq.broker.queues.places import envelope_header, foreign_envelope, routing_key
from chordmq.broker.queues.queue import Queue
from chordmq.broker.queues.streams import Stream, age_ms
from chordmq.broker.topic import Topic
from chordmq.codecs.amqp.content import Envelope, raw_with_number, read_envelope, with_headers
from chordmq.codecs.amqp.frames import content_frames, deliver_frame, short
from chordmq.errors import ChordMQError, DecodeError
from chordmq.fronts.amqp.errors import Fault
from chordmq.fronts.amqp.unsettled import Span
from chordmq.records.record import Record

if TYPE_CHECKING:
    from chordmq.fronts.amqp.channel import Channel

OFFSET = "x-stream-offset"
HIDDEN = frozenset({OFFSET, "BCC"})
"""Headers that a consumer does not see as they were sent."""
PLACES = ("first", "last", "next")
BYTES_AT_ONCE = 256 * 1024


def refused(stream: Stream, what: str) -> Fault:
    """Return what a client is told that treats a stream like other queues."""
    return Fault(540, f"{what} not supported by stream queues {named(stream)}")


def named(stream: Stream) -> str:
    """Return a stream as messages to clients name it."""
    return f"queue '{stream.name}' in vhost '{stream.facts.vhost}'"


class StreamConsumer:
    """A client's place in a stream, as long as it consumes.

    It stands both for a consumer and for the queue of one: what the client acknowledges makes room
    for more, and nothing else comes of it.
    """

    no_ack = False
    in_bulk = None
    priority = 0
    is_deleted = False

    def __init__(self, channel: "Channel", tag: str, stream: Stream, topic: Topic) -> None:
        self.channel = channel
        self.tag = tag
        self.queue = self
        self.name = stream.name
        self.limit = channel.limit_of_consumers
        self.unacked = 0
        self._stream = stream
        self._topic = topic
        self._feed: Feed | None = None
        self._is_scheduled = False
        self._tag = short(tag)

    @property
    def client_id(self) -> str:
        """Return the id of the client."""
        return self.channel.connection.number

    async def begin(self, wanted: Any) -> None:
        """Go to where the client wants to begin: the end, if it does not say."""
        connection = self.channel.connection
        time_ms = _time_ms(wanted, connection.front.queues.now_ms())
        extents = await connection.front.broker.bounds.of(self._topic.partitions, time_ms)
        offsets: Offsets = {
            partition.index: extent.at if time_ms != NO_TIME else _offset(extent, wanted)
            for partition, extent in extents.items()
        }
        self._feed = Feed(dict(enumerate(self._topic.partitions)), offsets, is_patient=True)

    # What the log and the connection tell.

    def wake(self) -> None:
        """Take note that there is more to read."""
        if not self._is_scheduled and self._feed is not None:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self.pump)

    def has_room(self) -> bool:
        """Return whether the client can take one message more."""
        channel = self.channel
        return (
            self.unacked < self.limit
            and len(channel.unacked) < channel.unacked_max
            and channel.connection.has_room
            and channel.is_flowing
        )

    def pump(self) -> None:
        """Send what is there, as far as the client has room."""
        self._is_scheduled = False
        try:
            while self._feed is not None and self.has_room():
                self._feed.skip_gaps()
                found = self._feed.take(self.limit - self.unacked, BYTES_AT_ONCE)
                for _, record in found:
                    self._send(record)
                if not found:
                    self._feed.wait(self)
                    break
        except ChordMQError:  # the topic is gone, whatever has become of the queue
            self.leave()
            self.channel.cancelled(self.tag)

    def _send(self, record: Record) -> None:
        channel, connection = self.channel, self.channel.connection
        envelope = self._envelope(record)
        properties = envelope.properties
        if not HIDDEN.isdisjoint(properties.headers):
            shown = {name: one for name, one in properties.headers.items() if name not in HIDDEN}
            properties = with_headers(properties, shown)
        raw = raw_with_number(properties, OFFSET, record.offset)
        channel.tag += 1
        head = deliver_frame(channel.number, self._tag, channel.tag, False, envelope.route)
        body = content_frames(channel.number, raw, record.value or b"", connection.frame_max)
        connection.send(head + body)
        connection.front.messages_out += 1
        self.unacked += 1
        channel.unacked.add(Span(channel.tag, record.offset, self, self))

    def _envelope(self, record: Record) -> Envelope:
        value = envelope_header(record)
        try:
            if value is not None:
                return read_envelope(value)[1]
        except (DecodeError, ValueError, struct.error):  # written by one who only claims to
            pass
        vhost = self._stream.facts.vhost
        return foreign_envelope(vhost, self.name, routing_key(record), record)

    # What the queues and the channel ask.

    def deliver(self, queue: Queue, entry: Entry) -> None:
        """Take nothing from the queue: what is for consumers lies in the topic."""
        raise AssertionError("a stream gives nothing to its consumers")

    def cancelled(self) -> None:
        """Tell the client that the stream is no more."""
        self._stop()
        self.channel.cancelled(self.tag)

    def leave(self) -> None:
        """End; what the client has not acknowledged stays where it is."""
        self._stop()
        self.channel.connection.front.queues.leave(self._stream, self)

    def _stop(self) -> None:
        if self._feed is not None:
            self._feed.forget(self)
            self._feed = None

    def finish_all(self, entries: Iterable[object]) -> None:
        """Let it be: messages stay, and the channel counts acknowledgements."""

    def finish_stretch(self, stretch: object) -> None:
        """Let it be, as above."""

    def reject(self, entry: object) -> None:
        """Refuse what makes no sense where messages stay."""
        raise refused(self._stream, "basic.nack and basic.reject")

    def requeue(self, entries: Iterable[object]) -> None:
        """Refuse to put messages back; a client that goes leaves them where they are."""
        if not self.channel.is_closing:
            raise refused(self._stream, "basic.nack and basic.reject")


async def consume_stream(
    channel: "Channel", tag: str, stream: Stream, method: commands.Basic.Consume
) -> StreamConsumer:
    """Let a client read a stream; raise a fault for what streams do not do."""
    arguments = method.arguments or {}
    if "x-priority" in arguments:
        raise Fault(406, f"invalid arg 'x-priority' for {named(stream)} of queue type stream")
    if not channel.limit_of_consumers:
        raise Fault(406, f"consumer prefetch count is not set for '{named(stream)}'")
    if method.no_ack:
        raise refused(stream, "automatic acknowledgement")
    if channel.limit:
        raise Fault(540, f"{named(stream)} does not support global qos")
    consumer = StreamConsumer(channel, tag, stream, await stream.topic())
    await consumer.begin(arguments.get(OFFSET, "next"))
    channel.connection.front.queues.consume(stream, consumer, exclusive=False)
    return consumer


def _time_ms(wanted: Any, now_ms: int) -> int:
    """Return the time at which a client wants to begin; NO_TIME if it does not say one."""
    if isinstance(wanted, datetime):
        return int(wanted.timestamp() * 1000)
    if isinstance(wanted, str) and wanted not in PLACES:
        return now_ms - age_ms(OFFSET, wanted)
    return NO_TIME


def _offset(extent: Extent, wanted: Any) -> int:
    if isinstance(wanted, str):
        return {"first": extent.start, "last": max(extent.end - 1, extent.start)}.get(
            wanted, extent.end
        )
    if isinstance(wanted, bool) or not isinstance(wanted, int):
        raise Fault(406, f"invalid arg '{OFFSET}': {wanted!r:.60} is no place in a stream")
    return min(max(wanted, extent.start), extent.end)
