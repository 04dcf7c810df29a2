"""Logs that are compacted, and what is in them."""

from typing import Any

from chordmq.records.record import NewRecord, build_batch
from chordmq.storage.compaction import IsAborted
from chordmq.storage.log import Log, LogSettings
from tests.storage.logs import (
    append,
    everything,
)

SETTINGS = LogSettings(
    segment_bytes=1000,
    index_interval_bytes=200,
    cleanup=frozenset({"compact"}),
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=1000,
)


def put(log: Log, key: bytes, value: bytes | None, **fields: Any) -> None:
    """Append one record in a batch of its own, on top of the time that the log's clock says."""
    append(log, build_batch([NewRecord(log._clock.now_ms(), key, value)], **fields))


def compact(log: Log, stable_offset: int | None = None, is_aborted: IsAborted | None = None) -> int:
    """Run one whole pass, and return how many segments were replaced."""
    log.flush()
    work, swaps = log.begin_compaction(stable_offset, is_aborted), 0
    if work is not None:
        while (swap := work.next()) is not None:
            log.swap(swap)
            swaps += 1
        log.finish_compaction(work)
    log.flush()
    log._tail.clear()
    return swaps


def state(log: Log) -> dict[bytes, bytes | None]:
    """Return the newest value of each key, as a consumer that reads all builds it."""
    return {record.key: record.value for record in everything(log) if record.key is not None}


def fill(log: Log, rounds: int = 10) -> None:
    for number in range(rounds):
        for key in (b"a", b"b", b"c"):
            put(log, key, b"%03d" % number * 10)
