"""Streams: a log topic read again from an offset or a time, by a client on its own."""

from typing import TYPE_CHECKING

from chordmq.broker.cursors.cursors import EARLIEST, LATEST
from chordmq.broker.partition import Partition
from chordmq.broker.topic import Topic
from chordmq.codecs.mqtt.properties import UserProperties
from chordmq.errors import InvalidRequest
from chordmq.fronts.mqtt.mapping import Parcel
from chordmq.fronts.mqtt.readers import Reader
from chordmq.fronts.mqtt.subscriptions import Subscription
from chordmq.fronts.mqtt.tails import BYTES_AT_ONCE, read_parcels

if TYPE_CHECKING:
    from chordmq.fronts.mqtt.front import MqttFront

OFFSET_PROPERTY = "stream-offset"
TIME_MIN = 100_000_000_000
"""Numbers from here on are milliseconds since 1970 (1973 and later), smaller ones offsets."""


def start_of(user: UserProperties) -> int | str:
    """Return where a stream begins: `earliest`, `latest`, or a number; raise InvalidRequest."""
    for name, value in user:
        if name == OFFSET_PROPERTY:
            if value in ("earliest", "latest"):
                return value
            if value.isascii() and value.isdigit() and len(value) < 19:
                return int(value)
            raise InvalidRequest(f"{OFFSET_PROPERTY} {value[:50]!r} is no place in a stream")
    return "latest"


class StreamSource:
    """One partition, and the client's place in it."""

    is_own = True

    def __init__(self, partition: Partition, offset: int) -> None:
        self.partition = partition
        self.offset = offset

    def settled(self, offset: int, *, is_taken: bool = True) -> None:
        """Go back to what the client has not taken."""
        if not is_taken:
            self.offset = min(self.offset, offset)


class StreamReader(Reader[StreamSource]):
    """Reads a log topic from where the client says, and follows its end."""

    def __init__(
        self, front: "MqttFront", subscription: Subscription, what: tuple[str, str]
    ) -> None:
        super().__init__(front, subscription, *what)
        self._start = start_of(subscription.user)

    async def source(self, topic: Topic, partition: Partition, start_ms: int) -> StreamSource:
        """Begin in one partition, or go on where the client was before the node went down."""
        session, wanted = self.subscription.session, self.subscription.filter
        kept = session.stream_places.pop((wanted, topic.id, partition.index), None)
        if kept is None:
            return StreamSource(partition, await self._offset(partition, start_ms))
        source = StreamSource(partition, kept.offset)
        self.outbox.note_done(source, kept.done)
        return source

    async def _offset(self, partition: Partition, start_ms: int) -> int:
        start, bounds = self._start, self.front.broker.bounds
        if isinstance(start, int) and start_ms != EARLIEST and start < TIME_MIN:
            extent = (await bounds.of([partition]))[partition]
            return min(max(start, extent.start), extent.end)
        if start_ms == EARLIEST or start == "earliest":
            start = EARLIEST
        elif isinstance(start, str):
            start = LATEST
        return (await bounds.starts([partition], start))[partition.index]

    def take(self, source: StreamSource, room: int) -> list[Parcel] | None:
        """Return the next messages."""
        partition, offset = source.partition, source.offset
        if not partition.readable(offset) or partition.awaits_disk(offset, BYTES_AT_ONCE):
            partition.wait(self)
            return None
        known = self.outbox.known_in(source)
        parcels, source.offset = read_parcels(source, source.offset, room, is_joining=not known)
        self.subscription.session.touch()
        return [one for one in parcels if one.base_offset not in known] if known else parcels

    def place_in(self, source: StreamSource) -> int:
        """Return the offset before which the client needs nothing any more."""
        return self.outbox.place_of(source, source.offset)

    def forget(self, source: StreamSource) -> None:
        """Be woken no more for a partition."""
        source.partition.forget(self)
