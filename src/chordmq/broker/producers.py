"""Idempotent producers of one partition: a batch sent again is recognised, a gap is refused."""

import struct
from collections import deque
from dataclasses import dataclass, field

from chordmq.errors import CorruptBatch, DuplicateSequence, OutOfOrderSequence, StaleProducerEpoch
from chordmq.records.batch import BatchHeader

NO_PRODUCER = -1
BATCHES_REMEMBERED = 5  # Kafka's clients keep at most five requests in flight
SEQUENCE_MASK = 0x7FFFFFFF

_COUNT = struct.Struct(">BI")
_PRODUCER = struct.Struct(">qhqB")
_BATCH = struct.Struct(">iiq")
SNAPSHOT_FORMAT = 1


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
    batches: deque[SentBatch] = field(default_factory=lambda: deque(maxlen=BATCHES_REMEMBERED))

    @property
    def last_sequence(self) -> int:
        """Return the sequence number of its last record, or -1 before the first."""
        return self.batches[-1].last_sequence if self.batches else -1


class ProducerState:
    """All producers that wrote to one partition; `check` decides, `replay` remembers."""

    def __init__(self) -> None:
        self.producers: dict[int, Producer] = {}

    def check(self, header: BatchHeader) -> int | None:
        """Return None for a new batch, or the offset that the same batch got the first time."""
        producer = self.producers.get(header.producer_id)
        if producer is None:
            return None  # first batch here, or the producer was forgotten: any number may be next
        if header.producer_epoch < producer.epoch:
            raise StaleProducerEpoch(
                f"producer {header.producer_id} has epoch {producer.epoch} by now, "
                f"the batch comes from epoch {header.producer_epoch}"
            )
        if header.producer_epoch > producer.epoch:
            if header.base_sequence != 0:
                raise OutOfOrderSequence(
                    f"a new epoch of producer {header.producer_id} begins with sequence 0, "
                    f"not {header.base_sequence}"
                )
            return None
        return self._check_sequence(producer, header)

    def _check_sequence(self, producer: Producer, header: BatchHeader) -> int | None:
        if not producer.batches:
            return None
        for batch in producer.batches:
            if (batch.first_sequence, batch.last_sequence) == (
                header.base_sequence,
                header.last_sequence,
            ):
                return batch.base_offset
        expected = (producer.last_sequence + 1) & SEQUENCE_MASK
        if header.base_sequence == expected:
            return None
        behind = (expected - header.base_sequence) & SEQUENCE_MASK
        if header.record_count <= behind < SEQUENCE_MASK // 2:
            raise DuplicateSequence(
                f"producer {header.producer_id}: sequence {header.base_sequence} is stored already"
            )
        raise OutOfOrderSequence(
            f"producer {header.producer_id}: expected sequence {expected}, "
            f"got {header.base_sequence}"
        )

    def replay(self, header: BatchHeader) -> None:
        """Remember a batch that is in the log; headers without a producer are ignored."""
        if header.producer_id == NO_PRODUCER:
            return
        producer = self.producers.get(header.producer_id)
        if producer is None or producer.epoch != header.producer_epoch:
            producer = self.producers[header.producer_id] = Producer(header.producer_epoch)
        producer.last_timestamp = header.max_timestamp
        if not header.is_control:
            producer.batches.append(
                SentBatch(header.base_sequence, header.last_sequence, header.base_offset)
            )

    def expire(self, before_ms: int) -> None:
        """Forget producers that have not written since `before_ms`."""
        for producer_id in [p for p, s in self.producers.items() if s.last_timestamp < before_ms]:
            del self.producers[producer_id]

    def snapshot(self) -> bytes:
        """Return the state as bytes, to be stored beside the log."""
        out = bytearray(_COUNT.pack(SNAPSHOT_FORMAT, len(self.producers)))
        for producer_id, producer in self.producers.items():
            out += _PRODUCER.pack(
                producer_id, producer.epoch, producer.last_timestamp, len(producer.batches)
            )
            for batch in producer.batches:
                out += _BATCH.pack(batch.first_sequence, batch.last_sequence, batch.base_offset)
        return bytes(out)

    def restore(self, data: bytes) -> None:
        """Take over the state of a snapshot; raise CorruptBatch if it is not one."""
        producers: dict[int, Producer] = {}
        try:
            form, count = _COUNT.unpack_from(data)
            if form != SNAPSHOT_FORMAT:
                raise CorruptBatch(f"producer snapshot has format {form}")
            position = _COUNT.size
            for _ in range(count):
                producer_id, epoch, timestamp, batches = _PRODUCER.unpack_from(data, position)
                position += _PRODUCER.size
                producer = producers[producer_id] = Producer(epoch, timestamp)
                for _ in range(batches):
                    producer.batches.append(SentBatch(*_BATCH.unpack_from(data, position)))
                    position += _BATCH.size
        except struct.error as error:
            raise CorruptBatch(f"producer snapshot is cut off: {error}") from error
        self.producers = producers
