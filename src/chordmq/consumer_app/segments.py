"""The messages of the local copy in segment files, by the same code that stores a node's logs."""

import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from chordmq.clock import Clock
from chordmq.records.batch import BatchHeader, read_header
from chordmq.records.record import Record, build_compacted, read_records
from chordmq.storage.log import Log
from chordmq.storage.metadata.database import Database
from chordmq.storage.metadata.segments import SegmentCatalogue
from chordmq.storage.settings import LogSettings
from chordmq.storage.tail import TailBudget

BATCH_RECORDS = 50
"""In one batch, which is what a query for one message decodes."""
MEMORY_BYTES = 16 << 20
SETTINGS = LogSettings(segment_bytes=64 << 20, retention_ms=-1)

Place = tuple[int, int]
"""Partition and offset."""


class Segments:
    """One log for each partition, with the offsets of the broker; used by several threads."""

    def __init__(self, directory: Path, clock: Clock) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._clock = clock
        self._database = Database(directory / "segments.db")
        self._catalogue = SegmentCatalogue(self._database)
        self._tail = TailBudget(MEMORY_BYTES, clock)
        self._turn = threading.Lock()
        self._logs: dict[int, Log] = {}
        for path in directory.iterdir():
            if path.is_dir() and path.name.isdigit():
                self._logs[int(path.name)] = self._open(int(path.name))

    def cut(self, positions: dict[int, int]) -> None:
        """Forget what a crash has left here that the index knows nothing of."""
        with self._turn:
            for partition, log in self._logs.items():
                log.truncate(max(positions.get(partition, 0), log.start_offset))

    def append(self, partition: int, records: Sequence[Record]) -> None:
        """Write messages with the offsets that they have at the broker; these may leave gaps."""
        with self._turn:
            if partition not in self._logs:
                self._logs[partition] = self._open(partition)
            log = self._logs[partition]
            if not log.size:
                log.restart(records[0].offset)
            batches, end = [], log.end_offset
            for start in range(0, len(records), BATCH_RECORDS):
                batch = _built(end, records[start : start + BATCH_RECORDS])
                batches.append(batch)
                end = read_header(batch).next_offset
            data = memoryview(b"".join(batches))
            log.append([data], [read_header(batch) for batch in batches])

    def flush(self) -> None:
        """Bring everything to the disk; queries go on meanwhile."""
        for log in [*self._logs.values()]:
            with self._turn:
                flush = log.begin_flush()
            if flush is not None:
                flush.sync()
                with self._turn:
                    log.finish_flush(flush)

    def delete_before(self, partition: int, offset: int) -> None:
        """Let go of the files that hold only older messages."""
        with self._turn:
            log = self._logs.get(partition)
            if log is not None:
                log.delete_before(min(offset, log.end_offset))

    def read(self, places: Iterable[Place], needle: bytes = b"") -> Iterator[tuple[int, Record]]:
        """Yield the messages at these places, or those of them in whose values a text stands.

        Batches in which it does not stand are not taken apart.
        """
        known, held, records = -1, range(0), dict[int, Record]()
        for partition, offset in places:
            if partition != known or offset not in held:
                batch = self._batch(partition, offset)
                header = read_header(batch)
                known, held = partition, range(header.base_offset, header.next_offset)
                has_it = not needle or needle in bytes(batch)
                records = {one.offset: one for one in read_records(batch)} if has_it else {}
            record = records.get(offset)
            if record is not None and (not needle or needle in (record.value or b"")):
                yield partition, record

    def close(self) -> None:
        """Bring everything to the disk and close the files."""
        for log in self._logs.values():
            log.flush()
            log.save()
            log.close()
        self._database.close()

    def _batch(self, partition: int, offset: int) -> memoryview:
        with self._turn:
            return self._logs[partition].read(offset, 1)[0]

    def _open(self, partition: int) -> Log:
        directory = self._directory / str(partition)
        return Log(directory, SETTINGS, self._clock, self._tail, self._catalogue)


def _built(base_offset: int, records: Sequence[Record]) -> bytearray:
    header = BatchHeader(
        base_offset=base_offset,
        size=0,
        leader_epoch=0,
        crc=0,
        attributes=0,
        last_offset_delta=records[-1].offset - base_offset,
        base_timestamp=records[0].timestamp,
        max_timestamp=max(record.timestamp for record in records),
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=len(records),
    )
    return build_compacted(header, records)
