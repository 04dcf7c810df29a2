"""A log in memory that is handed out to one queue, for tests of the two together."""

from collections.abc import Sequence
from typing import Any, cast

from chordmq.broker.audience import Audience
from chordmq.broker.decoded import DecodedBatches
from chordmq.broker.partition import Partition
from chordmq.broker.queues.entries import Entry
from chordmq.broker.queues.follower import Follower, Routing
from chordmq.broker.queues.queue import Queue
from chordmq.broker.queues.source import Source
from chordmq.codecs.amqp.content import HEADER_NAME, Envelope, Properties, write_envelope
from chordmq.records.batch import BatchHeader, place, read_header
from chordmq.records.record import Record, RecordRun, build_runs
from tests.broker.queues.keeper import Keeper, made


class Shelf(Audience):
    """A partition as far as a follower looks at it, whose batches lie in memory."""

    topic = "q"
    is_absent = is_closed = False

    def __init__(self) -> None:
        super().__init__()
        self._batches: list[tuple[BatchHeader, memoryview]] = []
        self._decoded = DecodedBatches()
        self.end = 0

    def append(self, run: RecordRun) -> None:
        """Add a batch."""
        batch = memoryview(build_runs([run]))
        place(batch, 0, self.end, 0)
        header = read_header(batch)
        self._batches.append((header, batch))
        self.end = header.next_offset

    def read(self, offset: int, max_bytes: int, *, only_stable: bool) -> list[memoryview]:
        found: list[memoryview] = []
        for header, batch in self._batches:
            if header.last_offset >= offset and sum(map(len, found)) < max_bytes:
                found.append(batch)
        return found

    def records(self, header: BatchHeader, batch: memoryview) -> list[Record]:
        return self._decoded.records(self, header, batch)

    def runs(self, header: BatchHeader, batch: memoryview) -> Sequence[RecordRun]:
        return self._decoded.runs(self, header, batch)

    def delivered(self, records: list[Record]) -> list[Record]:
        return records

    def aborted_in(self, offset: int, buffers: list[memoryview]) -> list[tuple[int, int]]:
        return []

    def nearest(self, offset: int) -> int:
        return offset

    def readable(self, offset: int) -> bool:
        return offset < self.end

    def awaits_disk(self, offset: int, max_bytes: int) -> bool:
        return False


class Shelved(Keeper):
    """A queue's keeper that has the queue's messages in a log, and hands them out."""

    def __init__(self, kind: type[Queue], arguments: dict[str, Any]) -> None:
        super().__init__()
        self.shelf = Shelf()
        self.partition = cast(Partition, self.shelf)
        self.queue, _ = made(kind, self, **arguments)
        self.queue.sources.clear()
        self.source = self.queue.sources[self.partition] = Source(self.partition, 0)
        self.follower = Follower(self.partition, 0, 0, self)

    def publish(self, properties: Properties, bodies: list[bytes]) -> None:
        """Put messages into one batch."""
        stamp = self.now_ms()
        value = write_envelope(stamp, Envelope("/", "", "q", properties))
        headers = ((HEADER_NAME, value), *((name, b"") for name in properties.headers))
        self.shelf.append(RecordRun(stamp, None, headers, bodies))

    def hand_out(self) -> None:
        """Have the queue told of all that is in the log."""
        while self.follower.position < self.shelf.end:
            self.follower.advance()

    # What the queue asks.

    def refill(self, queue: Queue) -> None:
        super().refill(queue)
        self.follower.refill(queue)

    def load(self, entry: Entry) -> bytes | None:
        [(_, batch), *_] = [
            one for one in self.shelf._batches if one[0].last_offset >= entry.offset
        ]
        header = read_header(batch)
        return self.shelf.records(header, batch)[entry.offset - header.base_offset].value

    def routed(self, partition: Any) -> int:
        return self.follower.position

    # What the follower asks.

    def published(self, topic: str, stamp: int, envelope: Envelope) -> list[Queue]:
        return [self.queue]

    def foreign(self, topic: str, record: Record) -> Routing | None:
        return None

    def arrived(self, partition: Partition, queue: Queue) -> None:
        assert queue is self.queue

    def advanced(self, partition: Partition) -> None:
        assert partition is self.partition
