"""Opens logs in a directory of the test, and makes the batches that go into them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from chordmq.clock import Clock, ManualClock
from chordmq.records.batch import BatchHeader, place, read_header
from chordmq.records.compression import Compression
from chordmq.records.record import NewRecord, Record, build_batch, read_records
from chordmq.storage import journal
from chordmq.storage.journal import Journal
from chordmq.storage.log import Log, LogSettings
from chordmq.storage.metadata.database import Database
from chordmq.storage.metadata.segments import SegmentCatalogue
from chordmq.storage.tail import TailBudget

MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""For tests that need many directories and no disk."""
SMALL = LogSettings(segment_bytes=4096, index_interval_bytes=256)
"""Segments and indexes so small that a few records fill several."""


class Disk:
    """One data directory, with its SQLite file, that outlives the logs opened in it."""

    def __init__(
        self, root: Path, *, tail_bytes: int = 1 << 20, clock: Clock | None = None
    ) -> None:
        self.root = root
        self.clock = clock or ManualClock()
        self.tail = TailBudget(tail_bytes, self.clock)
        self.journal: Journal | None = None
        self.open_database()

    def open_database(self) -> None:
        self.database = Database(self.root / "meta.db")
        self.catalogue = SegmentCatalogue(self.database)

    def open_journal(self, half_bytes: int = journal.HALF_BYTES) -> Journal:
        """Redo what an old journal has, as a node does at its start, and make a new one."""
        if self.journal is not None:
            self.journal.let_go()
        self.journal = journal.opened(self.root, self.root, self.catalogue, half_bytes)
        self.journal.open()
        return self.journal

    def log(self, settings: LogSettings = SMALL, name: str = "t-0") -> Log:
        return Log(self.root / name, settings, self.clock, self.tail, self.catalogue, self.journal)


@contextmanager
def disk(root: Path, *, tail_bytes: int = 1 << 20, clock: Clock | None = None) -> Iterator[Disk]:
    """Give a data directory, and close its database at the end."""
    opened = Disk(root, tail_bytes=tail_bytes, clock=clock)
    try:
        yield opened
    finally:
        if opened.journal is not None:
            opened.journal.let_go()
        opened.database.close()


def batch(
    *values: bytes | None,
    key: bytes | None = None,
    timestamp: int = 1_700_000_000_000,
    compression: Compression = Compression.NONE,
) -> bytearray:
    """Return one batch with these values."""
    records = [NewRecord(timestamp, key, value) for value in values]
    return build_batch(records, compression=compression)


def append(log: Log, *batches: bytearray, epoch: int = 0, is_lent: bool = False) -> None:
    """Give the batches the next offsets and append them with one write.

    Those that are lent lie in several places, and are something else afterwards.
    """
    offset, headers, data = log.end_offset, [], bytearray()
    for one in batches:
        place(memoryview(one), 0, offset, epoch)
        headers.append(read_header(one))
        offset = headers[-1].next_offset
        data += one
    if not is_lent:
        log.append([memoryview(data)], headers)
        return
    try:
        log.append([memoryview(one) for one in batches], headers, is_lent=True)
    finally:
        for one in batches:
            one[:] = bytes(len(one))


def headers_of(views: Sequence[memoryview]) -> list[BatchHeader]:
    """Return the headers of all batches in the views."""
    found = []
    for view in views:
        position = 0
        while position < len(view):
            found.append(read_header(view, position))
            position += found[-1].size
    return found


def records_of(views: Sequence[memoryview]) -> list[Record]:
    """Return the records of all batches in the views."""
    found: list[Record] = []
    for view in views:
        position = 0
        while position < len(view):
            size = read_header(view, position).size
            found += read_records(view[position : position + size])
            position += size
    return found


def everything(log: Log, *, max_bytes: int = 1 << 20) -> list[Record]:
    """Read the log from its start to its end as a consumer does."""
    offset, found = log.start_offset, []
    while offset < log.end_offset:
        views = log.read(offset, max_bytes)
        assert views, f"nothing at {offset} of {log.end_offset}"
        found += [record for record in records_of(views) if record.offset >= offset]
        offset = headers_of(views)[-1].next_offset
    return found


def crash(log: Log) -> None:
    """Give up the log as a killed process does: nothing is flushed, saved or marked."""
    log._cancel_flush()
    log._release()
