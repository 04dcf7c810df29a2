"""Copies records that nobody could process to another topic, with where they came from and why."""

from collections.abc import Sequence

from chordmq.broker.cursors.cursor import Cursor
from chordmq.broker.cursors.shared_cursor import Dead
from chordmq.broker.internal_log import Host
from chordmq.broker.partition import Partition
from chordmq.records.dead_letter import obituary
from chordmq.records.record import NewRecord, Record, build_batch

BATCH_BYTES = 256 * 1024
RECORD_OVERHEAD_BYTES = 256
"""Our headers and the record's own lengths, roughly."""

REJECTED, TRIED_TOO_OFTEN = "rejected", "tried too often"


async def bury(host: Host, cursor: Cursor, dead: Sequence[Dead]) -> None:
    """Append copies of the records to the cursor's dead-letter topic; return when they are safe.

    This comes before the records are done, so that a crash in between repeats copies and never
    loses one.
    """
    topic = await host.topics.ensure(cursor.policy.dead_letter)
    partition = topic.partitions[cursor.key.partition % len(topic.partitions)]
    batch: list[NewRecord] = []
    size = 0
    for part in dead:
        for record in cursor.records(part.first, part.last):
            batch.append(_letter(cursor, record, part))
            size += len(record.key or b"") + len(record.value or b"") + RECORD_OVERHEAD_BYTES
            if size >= BATCH_BYTES:
                await _append(host, partition, batch)
                batch, size = [], 0
    if batch:
        await _append(host, partition, batch)


async def _append(host: Host, partition: Partition, records: Sequence[NewRecord]) -> None:
    """Write letters here, or have whoever leads their partition write them."""
    if partition.is_leader:
        await host.append_records(partition.topic, partition.index, records)
    else:
        await partition.forward(memoryview(build_batch(records)))


def _letter(cursor: Cursor, record: Record, part: Dead) -> NewRecord:
    reason = REJECTED if part.is_rejected else TRIED_TOO_OFTEN
    why = obituary(
        cursor.partition.topic, cursor.key.partition, record.offset,
        cursor.key.group, part.deliveries, reason,
    )  # fmt: skip
    return NewRecord(record.timestamp, record.key, record.value, (*record.headers, *why))
