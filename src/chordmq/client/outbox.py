"""Records on their way out: batches per partition, one at a time in flight.

One batch in flight per partition keeps order and makes sequence numbers simple: a number is used up
only when the broker has stored the batch, so that a refused batch leaves no gap.
"""

import asyncio
from collections import deque
from collections.abc import Generator
from typing import Any

from chordmq.dataclass import dataclass
from chordmq.records.compression import Compression
from chordmq.records.record import NewRecord, build_batch

RECORD_OVERHEAD_BYTES = 24
SEQUENCE_MASK = 0x7FFFFFFF
SPLIT = -2
"""What a batch is answered with when it was too large and goes on as two halves."""


@dataclass(frozen=True, slots=True, eq=False)
class Identity:
    """What an idempotent producer is known by; a new one starts all sequences at 0."""

    producer_id: int = -1
    epoch: int = -1


ANONYMOUS = Identity()


class Batch:
    """Records for one partition that are sent, and answered, together."""

    __slots__ = (
        "created_s", "done", "encoded", "halves", "identity", "is_ripe", "is_uncertain", "lane",
        "records", "size",
    )  # fmt: skip

    def __init__(self, lane: "Lane", created_s: float, done: asyncio.Future[int]) -> None:
        self.lane = lane
        self.created_s = created_s
        self.done = done
        self.records: list[NewRecord] = []
        self.size = 0
        self.is_ripe = False
        """Whether it may go now: it is full, or has lingered, or its back-off is over."""
        self.is_uncertain = False
        """Whether an attempt ended without an answer, so that it may be stored already."""
        self.identity = ANONYMOUS
        self.encoded: bytearray | None = None
        self.halves: tuple[Batch, Batch] | None = None

    def add(self, record: NewRecord, size: int) -> int:
        """Take in a record and return its place."""
        self.records.append(record)
        self.size += size
        return len(self.records) - 1

    def encode(self, identity: Identity, compression: Compression) -> bytearray:
        """Return the batch's bytes; an uncertain one keeps identity and sequence, as it must."""
        if self.encoded is None or (identity is not self.identity and not self.is_uncertain):
            self.identity = identity
            self.encoded = build_batch(
                self.records,
                compression=compression,
                producer_id=identity.producer_id,
                epoch=identity.epoch,
                sequence=self.lane.sequence_for(identity),
            )
        return self.encoded


class Lane:
    """The batches of one partition, in their order."""

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.queue: deque[Batch] = deque()
        self.in_flight: Batch | None = None
        self._identity = ANONYMOUS
        self._sequence = 0

    def sequence_for(self, identity: Identity) -> int:
        """Return the sequence number of the next batch under this identity."""
        if identity is ANONYMOUS:
            return -1
        if identity is not self._identity:
            self._identity = identity
            self._sequence = 0
        return self._sequence

    def take_ripe(self) -> Batch | None:
        """Take the first batch if it may go now and none is under way."""
        if self.in_flight is None and self.queue and self.queue[0].is_ripe:
            self.in_flight = self.queue.popleft()
            return self.in_flight
        return None

    def put_back(self, batch: Batch) -> None:
        """Return the batch in flight to the head, to be sent again when it is ripe."""
        assert self.in_flight is batch
        self.in_flight = None
        self.queue.appendleft(batch)

    def split(self, batch: Batch) -> None:
        """Put two halves in the place of the batch in flight, which the broker finds too large."""
        assert self.in_flight is batch
        self.in_flight = None
        new_future = batch.done.get_loop().create_future
        middle = len(batch.records) // 2
        halves = []
        for records in (batch.records[:middle], batch.records[middle:]):
            half = Batch(self, batch.created_s, new_future())
            half.is_ripe = True
            for record in records:
                half.add(record, size_of(record))
            halves.append(half)
        batch.halves = (halves[0], halves[1])
        self.queue.extendleft(reversed(halves))
        batch.done.set_result(SPLIT)

    def finish(self, batch: Batch, *, stored: bool) -> None:
        """Let the next batch go; a stored one uses up its sequence numbers."""
        assert self.in_flight is batch
        self.in_flight = None
        if stored and batch.identity is self._identity:
            self._sequence = (self._sequence + len(batch.records)) & SEQUENCE_MASK


class Delivery:
    """A record on its way: awaiting it gives its offset, or raises why it was not delivered."""

    __slots__ = ("_batch", "_place")

    def __init__(self, batch: Batch, place: int) -> None:
        self._batch = batch
        self._place = place

    @property
    def partition(self) -> int:
        """Return the partition that the record goes to."""
        return self._batch.lane.partition

    @property
    def answered(self) -> asyncio.Future[int]:
        """Return the future of the whole batch, for those who want to be called back."""
        return self._batch.done

    def __await__(self) -> Generator[Any, None, int]:
        batch, place = self._batch, self._place
        while True:
            # Shielded: one waiter that is cancelled must not cancel the batch of all the others.
            base = yield from asyncio.shield(batch.done).__await__()
            if batch.halves is None:
                return base + place if base >= 0 else -1
            first, second = batch.halves
            is_first = place < len(first.records)
            batch, place = (first, place) if is_first else (second, place - len(first.records))


def size_of(record: NewRecord) -> int:
    """Return about how many bytes a record takes."""
    size = RECORD_OVERHEAD_BYTES
    if record.key is not None:
        size += len(record.key)
    if record.value is not None:
        size += len(record.value)
    for name, value in record.headers:
        size += len(name) + len(value or b"") + 4
    return size
