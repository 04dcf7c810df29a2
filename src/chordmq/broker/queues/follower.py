"""Follows one partition and hands its messages out to queues: the log first, queues second."""

import asyncio
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol, cast

from chordmq.broker.feed import visible
from chordmq.broker.partition import Partition
from chordmq.broker.queues.entries import Entry, Stretch
from chordmq.broker.queues.places import envelope_header, excluded, kept_sections
from chordmq.broker.queues.queue import Queue
from chordmq.broker.queues.source import Source
from chordmq.codecs.amqp.content import HEADER_NAME, Envelope, read_envelope
from chordmq.errors import ChordMQError, DecodeError, OffsetNotAvailable
from chordmq.logs import get_logger
from chordmq.records.batch import BatchHeader
from chordmq.records.record import Headers, Record, RecordRun

log = get_logger(__name__)

READ_BYTES = 1024 * 1024
REFILL_BYTES = 256 * 1024
READ_TIMEOUT_S = 5.0
"""How long another node is waited for."""


class Routing(NamedTuple):
    """A record as a message, when it was published, and the queues it belongs to."""

    envelope: Envelope
    stamp: int
    queues: list[Queue]

    def with_sections(self, sections: bytes) -> "Routing":
        """Return the same for an AMQP 1.0 message, if the record is one."""
        if not sections:
            return self
        return self._replace(envelope=replace(self.envelope, sections=sections))


class Run(NamedTuple):
    """Messages that go the same way and follow each other."""

    routing: Routing
    first: int
    """The offset of the first."""
    bodies: list[bytes]

    @property
    def offsets(self) -> range:
        """Return where the messages are."""
        return range(self.first, self.first + len(self.bodies))

    def before(self, offset: int) -> "Run":
        """Return the messages before an offset."""
        if self.first + len(self.bodies) <= offset:
            return self
        return self._replace(bodies=self.bodies[: max(offset - self.first, 0)])


class Router(Protocol):
    """What a follower needs to know."""

    def published(self, topic: str, stamp: int, envelope: Envelope) -> list[Queue]:
        """Return the queues of a message that lies in a topic and says that it came over AMQP."""
        ...

    def foreign(self, topic: str, record: Record) -> Routing | None:
        """Return what another front's record is as a message; None if no queue wants it."""
        ...

    def arrived(self, partition: Partition, queue: Queue) -> None:
        """Take note that a queue has got something."""
        ...

    def advanced(self, partition: Partition) -> None:
        """Take note that more of a partition is handed out, whoever got it."""
        ...


class Follower:
    """One partition's reader; everything before `position` is handed out."""

    def __init__(
        self, partition: Partition, position: int, known_until: int, router: Router
    ) -> None:
        self.partition = partition
        self.position = position
        self._known_until = known_until
        """Before it, only queues that held something when it was stored get messages again."""
        self._router = router
        self._last_headers: Headers = ()
        self._last: Routing | None = None
        self._awaited: list[tuple[int, asyncio.Future[None]]] = []
        """Who waits until this is handed out up to an offset."""
        self._is_scheduled = False
        self.is_closed = False

    def wake(self) -> None:
        """Take note that there is more to hand out."""
        if not self._is_scheduled and not self.is_closed:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self.advance)

    def close(self) -> None:
        """Hand out no more."""
        self.is_closed = True
        self.partition.forget(self)
        self._tell_reached()

    def move(self, partition: Partition) -> None:
        """Go on with what stands for the partition now."""
        self.partition = partition
        self.wake()

    async def reached(self, offset: int) -> None:
        """Wait until all before an offset is handed out, but not for ever."""
        if self.position < offset and not self.is_closed:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._awaited.append((offset, future))
            await asyncio.wait([future], timeout=READ_TIMEOUT_S)

    def _tell_reached(self) -> None:
        awaited, self._awaited = self._awaited, []
        for offset, future in awaited:
            if self.position < offset and not self.is_closed:
                self._awaited.append((offset, future))
            elif not future.done():
                future.set_result(None)

    def advance(self) -> None:
        """Hand out what is committed, a bounded part of it at a time."""
        self._is_scheduled = False
        if self.is_closed or self.partition.is_closed:
            return
        touched: dict[Queue, None] = {}
        try:
            is_more = self._hand_out(touched)
        except OffsetNotAvailable:  # the copy here is late
            is_more = False
        except ChordMQError as error:
            log.error("not handed out", topic=self.partition.topic, error=str(error))
            is_more = False
        for queue in touched:
            queue.settle_down()
        if self._awaited:
            self._tell_reached()
        if is_more:
            self._router.advanced(self.partition)
            self.wake()
        else:
            self.partition.wait(self)
            if self.partition.is_absent and self.partition.readable(self.position):
                self.wake()

    def _hand_out(self, touched: dict[Queue, None]) -> bool:
        start = self.position = self.partition.nearest(self.position)
        if self.partition.awaits_disk(start, READ_BYTES):
            return False
        for next_offset, runs in self._read(start, READ_BYTES):
            for run in runs:
                for queue in run.routing.queues:
                    if self._hand(queue, run):
                        touched[queue] = None
                        self._router.arrived(self.partition, queue)
            self.position = next_offset
        return self.position > start

    def _read(self, start: int, bytes_max: int) -> Iterator[tuple[int, Iterator[Run]]]:
        """Yield what goes to any queue of each batch from an offset on, and the offset after it."""
        partition = self.partition
        self._last_headers = ()  # bindings may have changed since
        buffers = partition.read(start, bytes_max, only_stable=True)
        for header, batch in visible(partition, start, buffers):
            runs = partition.runs(header, batch) if batch is not None else ()
            if runs:
                yield header.next_offset, self._known_runs(header.base_offset, runs, start)
            else:
                records = _records(partition, header, batch, start)
                yield header.next_offset, self._runs(records)

    def _known_runs(self, first: int, runs: Sequence[RecordRun], start: int) -> Iterator[Run]:
        """Yield what goes to any queue from an offset on, of records that are known as runs."""
        for time, key, headers, all_values in runs:
            values = all_values[max(start - first, 0) :]
            first += len(all_values)
            if not values:
                continue
            at = first - len(values)
            if headers and headers[0][0] == HEADER_NAME and values[0] is not None:
                routing = self._route(Record(at, time, key, None, headers))
                if routing is not None:
                    yield Run(routing, at, cast(list[bytes], values))
            else:
                found = enumerate(values, at)
                yield from self._runs([Record(n, time, key, one, headers) for n, one in found])

    def _runs(self, records: Iterable[Record]) -> Iterator[Run]:
        """Yield what goes to any queue, records together that were published in the same way."""
        run: Run | None = None
        for record in records:
            routing, offset = self._route(record), record.offset
            if run is None or routing is not run.routing or offset != run.first + len(run.bodies):
                if run is not None:
                    yield run
                run = None if routing is None else Run(routing, offset, [])
            if run is not None:
                run.bodies.append(record.value or b"")
        if run is not None:
            yield run

    def _hand(self, queue: Queue, run: Run) -> bool:
        """Give messages to a queue; return whether any of them is new to it."""
        partition, (routing, first, bodies) = self.partition, run
        source = queue.sources.get(partition)
        if source is None and first >= self._known_until:
            source = queue.sources[partition] = Source(partition, first)
        if source is None or first < source.next or source.knows(run.offsets):
            found = enumerate(bodies, first)
            return sum([self._hand_one(queue, *one, routing) for one in found]) > 0
        queue.arrived(sum(map(len, bodies)), routing.stamp, len(bodies))
        if not source.is_behind:
            source.is_behind = not put_all(queue, source, run)
        return True

    def _hand_one(self, queue: Queue, offset: int, body: bytes, routing: Routing) -> bool:
        """Give a message to a queue that may know it, or has no room for it now."""
        partition = self.partition
        source = queue.sources.get(partition)
        if source is None:
            if offset < self._known_until:
                return False
            source = queue.sources[partition] = Source(partition, offset)
        elif offset < source.next or (source.kept and source.is_done(offset)):
            if offset >= source.next and not source.is_behind:
                source.take(offset)
            return False
        queue.arrived(len(body), routing.stamp)
        if source.is_behind or not queue.has_window:
            source.is_behind = True
        else:
            put(queue, source, (offset, body), routing)
        return True

    def _route(self, record: Record) -> Routing | None:
        """Return what a record is as a message; many in a row were published the same way."""
        headers = record.headers
        if headers and headers == self._last_headers:
            return self._last
        routing = route(self._router, self.partition.topic, record)
        is_published = bool(headers) and headers[0][0] == HEADER_NAME
        self._last_headers, self._last = headers if is_published else (), routing
        return routing

    def refill(self, queue: Queue) -> None:
        """Have a queue look at more of what it has in this partition."""
        partition = self.partition
        if partition.is_closed:
            return  # there is nothing any more to read
        source = queue.sources[partition]
        source.next = partition.nearest(source.next)
        while source.next < self.position:
            if self._has_to_wait(queue, source.next):
                partition.wait(Refill(self, queue))
                return
            for next_offset, runs in self._read(source.next, REFILL_BYTES):
                for run in runs:
                    if not self._look_at(queue, source, run.before(self.position)):
                        return
                source.next = min(next_offset, self.position)
        source.is_behind = False

    def _has_to_wait(self, queue: Queue, offset: int) -> bool:
        """Return whether another node is asked first, or the disk for those who may wait for it."""
        partition = self.partition
        if partition.is_absent:
            return not partition.readable(offset)
        return queue.may_wait and partition.awaits_disk(offset, REFILL_BYTES)

    def is_for(self, queue: Queue, record: Record) -> bool:
        """Return whether a record is a message of the queue's."""
        routing = route(self._router, self.partition.topic, record)
        return routing is not None and queue in routing.queues

    def _look_at(self, queue: Queue, source: Source, run: Run) -> bool:
        """Give a queue messages that are counted; return whether there was room for all of them."""
        routing, first, bodies = run
        if not bodies or queue not in routing.queues:
            return True
        if not source.knows(run.offsets):
            return put_all(queue, source, run)
        for offset, body in enumerate(bodies, first):
            if not queue.has_window:
                return False
            if source.is_done(offset):
                source.take(offset)
            else:
                put(queue, source, (offset, body), routing)
        return True


class Refill(NamedTuple):
    """A queue that waits for messages which the disk or another node has."""

    follower: Follower
    queue: Queue

    def wake(self) -> None:
        """Look again, in the next turn."""
        asyncio.get_running_loop().call_soon(self._look)

    def _look(self) -> None:
        if not self.queue.is_deleted and not self.follower.is_closed:
            self.queue.pump()


def put_all(queue: Queue, source: Source, run: Run) -> bool:
    """Put as many messages that are counted into a queue as it has room for; return if all."""
    room = queue.window_for(run.bodies)
    if room:
        stretch = Stretch(source, run.first, run.routing.envelope, [*run.bodies[:room]])
        source.take_all(stretch.offsets)
        queue.push_stretch(stretch, run.routing.stamp)
    return room == len(run.bodies)


def put(queue: Queue, source: Source, message: tuple[int, bytes], routing: Routing) -> None:
    """Put a message that is counted into a queue, from its offset."""
    offset, body = message
    deliveries = source.take(offset)
    if deliveries is None:
        queue.forgotten(len(body))
        return
    entry = Entry(source, offset, routing.envelope, body)
    entry.deliveries = deliveries
    queue.push(entry, routing.stamp)


def route(router: Router, topic: str, record: Record) -> Routing | None:
    """Return what a record is as a message and which queues it belongs to; None if to none."""
    value, sections = envelope_header(record), kept_sections(record)
    try:
        if value is None:
            routing = router.foreign(topic, record)
            return routing and routing.with_sections(sections)
        stamp, envelope = read_envelope(value)
    except (DecodeError, ValueError, struct.error) as error:  # a queue must get past it
        log.warning("a message cannot be read", topic=topic, offset=record.offset, error=str(error))
        return None
    queues = router.published(topic, stamp, envelope)
    if len(record.headers) > 1 and (without := excluded(record)):
        queues = [queue for queue in queues if queue.name not in without]
    return Routing(envelope, stamp, queues).with_sections(sections) if queues else None


def read_batches(
    partition: Partition, offset: int, bytes_max: int
) -> Iterator[tuple[int, list[Record]]]:
    """Yield the committed records of each batch from an offset on, and the offset after them."""
    buffers = partition.read(offset, bytes_max, only_stable=True)
    for header, batch in visible(partition, offset, buffers):
        yield header.next_offset, _records(partition, header, batch, offset)


def _records(
    partition: Partition, header: BatchHeader, batch: memoryview | None, start: int
) -> list[Record]:
    """Return the records of a batch from an offset on; none of one that is not to be seen."""
    records = [] if batch is None else partition.delivered(partition.records(header, batch))
    if header.base_offset < start:
        records = [record for record in records if record.offset >= start]
    return records
