"""Publishes what the service has decided: each message once, also if a crash makes it try twice.

The messages of a step are stored before they are published, with the sequence numbers of a producer
that they will have. After a crash they are published again; the log knows those that it has.
"""

import asyncio
from collections.abc import Iterator, Sequence

from chordmq.broker.broker import Broker
from chordmq.broker.forwarding import append_here
from chordmq.broker.names import Names, named
from chordmq.broker.partition import Partition
from chordmq.broker.producers import SEQUENCE_MASK
from chordmq.broker.retained import Retained
from chordmq.client.partitioner import partition_for_key
from chordmq.errors import ChordMQError, DuplicateSequence
from chordmq.iot.entries import Outgoing, Progress
from chordmq.logs import get_logger
from chordmq.records.record import NewRecord, build_batch

log = get_logger(__name__)

DEAD_LETTER_SUFFIX = ".dlq"
BATCH_BYTES_MAX = 512 * 1024
QOS = 1


class Publisher:
    """The producer of the service's messages."""

    def __init__(self, broker: Broker, names: Names, retained_max: int) -> None:
        self._broker = broker
        self._names = names
        self._retained_max = retained_max

    async def publish(self, progress: Progress) -> dict[str, int]:
        """Publish what a step has left; return the sequence numbers that come next."""
        # First, so that who hears of a change and then subscribes finds what holds now.
        kept = [self._keep(one, progress.now_ms) for one in progress.outgoing if one.is_retained]
        sequences = dict(progress.sequences)
        for partition, records in (await self._sorted(progress)).items():
            place = f"{partition.topic}-{partition.index}"
            for batch in _batches(records):
                sequence = sequences.get(place, 0)
                await self._append(partition, batch, progress.producer_id, sequence)
                sequences[place] = (sequence + len(batch)) & SEQUENCE_MASK
        for fault in await asyncio.gather(*kept, return_exceptions=True):
            if isinstance(fault, ChordMQError):
                log.warning("not retained", error=str(fault))
        return sequences

    async def _sorted(self, progress: Progress) -> dict[Partition, list[NewRecord]]:
        """Return the records for each partition, in their order."""
        found: dict[Partition, list[NewRecord]] = {}
        for message in progress.outgoing:
            if message.value is None and message.is_retained:
                continue
            topic, key = self._names.destination(message.name)
            if message.is_dead:
                topic += DEAD_LETTER_SUFFIX
            partitions = (await self._broker.topics.ensure(topic)).partitions
            index = partition_for_key(key or b"", len(partitions))
            record = NewRecord(progress.now_ms, key, message.value, message.headers)
            found.setdefault(partitions[index], []).append(named(record, message.name))
        return found

    async def _append(
        self, partition: Partition, records: Sequence[NewRecord], producer_id: int, sequence: int
    ) -> None:
        sealed = partition.sealed(records)
        batch = memoryview(build_batch(sealed, producer_id=producer_id, epoch=0, sequence=sequence))
        try:
            if partition.is_leader:
                await append_here(partition, batch)
            else:
                await partition.forward(batch)
        except DuplicateSequence:
            log.info("published before", topic=partition.topic, sequence=sequence)

    def _keep(self, message: Outgoing, now_ms: int) -> asyncio.Future[None]:
        retained = Retained(
            name=message.name,
            payload=message.value or b"",
            qos=QOS,
            timestamp_ms=now_ms,
            headers=message.headers,
        )
        try:
            return self._broker.retained.keep(retained, self._retained_max)
        except ChordMQError as error:
            refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            refused.set_exception(error)
            return refused


def _batches(records: Sequence[NewRecord]) -> Iterator[Sequence[NewRecord]]:
    """Yield records that go into one batch; always the same ones, or the log could not tell."""
    start, size = 0, 0
    for index, record in enumerate(records):
        size += len(record.value or b"")
        if size > BATCH_BYTES_MAX and index > start:
            yield records[start:index]
            start, size = index, len(record.value or b"")
    yield records[start:]
