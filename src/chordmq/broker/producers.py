"""Producers of one partition: a batch sent again is recognised, a gap is refused.

The snapshot, big-endian: format u8 (3), producer count u32; for each its id i64, epoch i16, time
of its last batch i64, coordinator epoch i32, first offset of its open transaction i64 (-1: none),
batch count u8, and each batch as first and last sequence i32 and base offset i64; then the count
of aborted transactions u32, each as producer id, first, last and stable offset, all i64; then the
origins of copied batches, as `origins.py` says.
"""

import struct
from collections import deque
from dataclasses import field
from typing import NamedTuple

from chordmq.broker.isolation import Aborted, Isolation
from chordmq.broker.origins import Origins
from chordmq.dataclass import dataclass
from chordmq.errors import (
    CoordinatorFenced,
    CorruptBatch,
    DuplicateSequence,
    InvalidRecord,
    InvalidTransactionState,
    OutOfOrderSequence,
    StaleProducerEpoch,
)
from chordmq.records.batch import TRANSACTIONAL, BatchHeader
from chordmq.records.marker import Marker
from chordmq.records.origin import NO_PRODUCER

NO_SEQUENCE = -1
BATCHES_REMEMBERED = 5  # Kafka's clients keep at most five requests in flight
SEQUENCE_MASK = 0x7FFFFFFF

_COUNT = struct.Struct(">BI")
_PRODUCER = struct.Struct(">qhqiqB")
_BATCH = struct.Struct(">iiq")
_ABORTED_COUNT = struct.Struct(">I")
_ABORTED = struct.Struct(">qqqq")
SNAPSHOT_FORMAT = 3


class Incarnation(NamedTuple):
    """A producer id and its epoch; a newer epoch fences the ones before it."""

    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class SentBatch:
    """A batch that is in the log: its sequence numbers and its first offset."""

    first_sequence: int
    last_sequence: int
    base_offset: int


@dataclass(slots=True)
class Producer:
    """What the partition knows of one producer."""

    epoch: int
    last_timestamp: int = -1
    coordinator_epoch: int = -1
    has_written: bool = True
    """Whether it wrote since `expire` last looked."""
    idle_since_ms: int = 0
    batches: deque[SentBatch] = field(default_factory=lambda: deque(maxlen=BATCHES_REMEMBERED))

    @property
    def last_sequence(self) -> int:
        """Return the sequence number of its last record, or -1 before the first."""
        return self.batches[-1].last_sequence if self.batches else -1


def is_next(before: BatchHeader, header: BatchHeader) -> bool:
    """Say whether a producer's batch needs no other check than that the one before it was taken."""
    return (
        header.producer_epoch == before.producer_epoch
        and header.base_sequence == (before.last_sequence + 1) & SEQUENCE_MASK
        and not (before.attributes | header.attributes) & TRANSACTIONAL
    )


class ProducerState:
    """All producers that wrote to one partition; `check` decides, `replay` remembers."""

    def __init__(self) -> None:
        self.producers: dict[int, Producer] = {}
        self.transactions = Isolation()
        self.origins = Origins()

    def check(self, header: BatchHeader, *, is_enlisted: bool = False) -> int | None:
        """Return None for a new batch, or the offset that the same batch got the first time.

        `is_enlisted` says that the coordinator knows of a transaction's first batch here.
        """
        if header.base_sequence < 0 and not is_enlisted:
            raise InvalidRecord(f"a batch of producer {header.producer_id} has no sequence number")
        known = self._check_order(header)
        if known is None:
            is_open = header.producer_id in self.transactions
            if header.attributes & TRANSACTIONAL:
                if not (is_open or is_enlisted):
                    raise InvalidTransactionState(
                        f"the partition is in no transaction of producer {header.producer_id}"
                    )
            elif is_open:
                raise InvalidTransactionState(
                    f"producer {header.producer_id} is in a transaction, its batch is not"
                )
        return known

    def _check_order(self, header: BatchHeader) -> int | None:
        producer = self.producers.get(header.producer_id)
        if producer is None:
            return None  # first batch here, or the producer was forgotten: any number may be next
        if header.producer_epoch < producer.epoch:
            raise StaleProducerEpoch(
                f"producer {header.producer_id} has epoch {producer.epoch} by now, "
                f"the batch comes from epoch {header.producer_epoch}"
            )
        if header.producer_epoch > producer.epoch:
            if header.base_sequence > 0:
                raise OutOfOrderSequence(
                    f"a new epoch of producer {header.producer_id} begins with sequence 0, "
                    f"not {header.base_sequence}"
                )
            return None
        return self._check_sequence(producer, header)

    def _check_sequence(self, producer: Producer, header: BatchHeader) -> int | None:
        if not producer.batches or header.base_sequence == NO_SEQUENCE:
            return None
        expected = (producer.last_sequence + 1) & SEQUENCE_MASK
        if header.base_sequence == expected:
            return None
        numbers = header.base_sequence, header.last_sequence
        for batch in producer.batches:
            if (batch.first_sequence, batch.last_sequence) == numbers:
                return batch.base_offset
        behind = (expected - header.base_sequence) & SEQUENCE_MASK
        if header.record_count <= behind < SEQUENCE_MASK // 2:
            raise DuplicateSequence(
                f"producer {header.producer_id}: sequence {header.base_sequence} is stored already"
            )
        raise OutOfOrderSequence(
            f"producer {header.producer_id}: expected sequence {expected}, "
            f"got {header.base_sequence}"
        )

    def check_marker(self, marker: Marker) -> None:
        """Refuse a marker of an older epoch than the producer's, or of an older coordinator."""
        producer = self.producers.get(marker.producer_id)
        if producer is None:
            return
        if marker.epoch < producer.epoch:
            raise StaleProducerEpoch(
                f"producer {marker.producer_id} has epoch {producer.epoch}, "
                f"the marker is of epoch {marker.epoch}"
            )
        if marker.coordinator_epoch < producer.coordinator_epoch:
            raise CoordinatorFenced(
                f"producer {marker.producer_id} has heard of coordinator epoch "
                f"{producer.coordinator_epoch}, the marker is of epoch {marker.coordinator_epoch}"
            )

    def replay(self, header: BatchHeader, marker: Marker | None = None) -> None:
        """Remember a batch that is in the log; headers without a producer are ignored.

        For a control batch, `marker` says what it holds.
        """
        self.origins.replay(header)
        if header.producer_id <= NO_PRODUCER:
            return
        producer = self.producers.get(header.producer_id)
        if producer is None or producer.epoch != header.producer_epoch:
            producer = self.producers[header.producer_id] = Producer(header.producer_epoch)
        producer.last_timestamp = header.max_timestamp
        producer.has_written = True
        if marker is not None:
            producer.coordinator_epoch = marker.coordinator_epoch
            self.transactions.end(
                header.producer_id, header.base_offset, is_commit=marker.is_commit
            )
            return
        if header.base_sequence != NO_SEQUENCE:
            producer.batches.append(
                SentBatch(header.base_sequence, header.last_sequence, header.base_offset)
            )
        if header.attributes & TRANSACTIONAL:
            self.transactions.begin(header.producer_id, header.base_offset)

    def expire(self, now_ms: int, idle_ms: int) -> None:
        """Forget producers that are in no transaction and have been idle for so long.

        Idle by the broker's clock: a producer of old records is no old producer.
        """
        for producer_id, producer in list(self.producers.items()):
            if producer.has_written or producer_id in self.transactions:
                producer.has_written, producer.idle_since_ms = False, now_ms
            elif now_ms - producer.idle_since_ms >= idle_ms:
                del self.producers[producer_id]

    def snapshot(self) -> bytes:
        """Return the state as bytes, to be stored beside the log."""
        out = bytearray(_COUNT.pack(SNAPSHOT_FORMAT, len(self.producers)))
        for producer_id, producer in self.producers.items():
            out += _PRODUCER.pack(
                producer_id,
                producer.epoch,
                producer.last_timestamp,
                producer.coordinator_epoch,
                self.transactions.first_offset(producer_id),
                len(producer.batches),
            )
            for batch in producer.batches:
                out += _BATCH.pack(batch.first_sequence, batch.last_sequence, batch.base_offset)
        out += _ABORTED_COUNT.pack(len(self.transactions.aborted))
        for transaction in self.transactions.aborted:
            out += _ABORTED.pack(*transaction)
        return bytes(out) + self.origins.snapshot()

    def restore(self, data: bytes) -> None:
        """Take over the state of a snapshot; raise CorruptBatch if it is not one."""
        try:
            self._restore(data)
        except struct.error as error:
            raise CorruptBatch(f"producer snapshot is cut off: {error}") from error

    def _restore(self, data: bytes) -> None:
        producers: dict[int, Producer] = {}
        begun: list[tuple[int, int]] = []
        form, count = _COUNT.unpack_from(data)
        if form != SNAPSHOT_FORMAT:
            raise CorruptBatch(f"producer snapshot has format {form}")
        position = _COUNT.size
        for _ in range(count):
            producer_id, epoch, timestamp, coordinator, first, batches = _PRODUCER.unpack_from(
                data, position
            )
            position += _PRODUCER.size
            producer = producers[producer_id] = Producer(epoch, timestamp, coordinator)
            if first >= 0:
                begun.append((first, producer_id))
            for _ in range(batches):
                producer.batches.append(SentBatch(*_BATCH.unpack_from(data, position)))
                position += _BATCH.size
        transactions = Isolation()
        for first, producer_id in sorted(begun):
            transactions.begin(producer_id, first)
        (aborted,) = _ABORTED_COUNT.unpack_from(data, position)
        start = position + _ABORTED_COUNT.size
        transactions.aborted += [
            Aborted(*_ABORTED.unpack_from(data, start + number * _ABORTED.size))
            for number in range(aborted)
        ]
        origins = Origins()
        origins.restore(data, start + aborted * _ABORTED.size)
        self.producers, self.transactions, self.origins = producers, transactions, origins
