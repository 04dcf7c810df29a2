"""Where pipes end in this node: one partition takes copies, and knows how far each source is."""

import asyncio
from collections.abc import Iterator, Sequence

from chordmq.broker.partition import Partition
from chordmq.errors import UnknownTopic
from chordmq.records.batch import COMPRESSION_MASK, walk
from chordmq.records.compression import Compression
from chordmq.records.record import Record, build_batch, read_records
from chordmq.topology.pipe import Progress, copy, progress_in

STEP_BYTES = 256 * 1024
STEP_RECORDS = 1000
"""What is appended at once: a larger turn of the event loop would keep others waiting."""
LOOK_BACK = 1000
READ_BYTES = 1024 * 1024


class Inlet:
    """One partition; pipes from several sources take turns."""

    def __init__(self, partition: Partition, kept: Progress | None) -> None:
        self.partition = partition
        self._kept = kept
        self._progress: Progress | None = None
        self._safe: Progress | None = None
        self._turn = asyncio.Lock()
        self.records = 0
        """Records that were copied."""
        self.repeated = 0
        """Records that came and were here already."""

    @property
    def progress(self) -> Progress:
        """Return how far the partition is, by what its log says."""
        if self._progress is None:
            self._progress = read_progress(self.partition) or self._kept or Progress()
        return self._progress

    @property
    def known(self) -> Progress | None:
        """Return how far the partition was when all of it was committed, if that is at hand."""
        return None if self.partition.is_closed else self._safe

    def forget(self) -> None:
        """Look into the log again before more is taken: somebody else may have written to it."""
        self._progress = None

    async def take(self, source: str, own: str, body: bytes, following: int) -> int:
        """Append what is new of a source's batches; return how many records are on disk by it."""
        async with self._turn:
            try:
                return await self._take(source, own, body, following)
            except BaseException:
                self.forget()  # an append whose outcome is not known may be in the log
                raise

    async def _take(self, source: str, own: str, body: bytes, following: int) -> int:
        count = end = 0
        for records, compression in _batches(body):
            for part in _steps(records):
                after = part[-1].offset + 1
                copied = copy(part, source=source, own=own, following=after, progress=self.progress)
                self.repeated += len(part) - len(copied.records)
                if copied.records:
                    data = build_batch(copied.records, compression=compression)
                    end = self.partition.append(memoryview(data)).next_offset
                self._progress = copied.progress
                count += len(copied.records)
                await asyncio.sleep(0)  # others have their turn
        await self._committed(end)
        self.progress.next[source] = max(following, self.progress.next.get(source, 0))
        self._safe = self.progress.copied()
        self.records += count
        return count

    async def _committed(self, end: int) -> None:
        committed = self.partition.committed(end)
        if committed is None:
            return
        try:
            await committed
        except asyncio.CancelledError:
            if self.partition.is_closed:
                raise UnknownTopic(f"{self.partition.topic} was deleted meanwhile") from None
            raise


def read_progress(partition: Partition) -> Progress | None:
    """Return the newest progress that lies in a log, committed or not; None if there is none."""
    log = partition.log
    stop, step = log.end_offset, LOOK_BACK
    while stop > log.start_offset:
        start = max(log.start_offset, stop - step)
        found: Progress | None = None
        offset = start
        while offset < stop:
            buffers = log.read(offset, READ_BYTES)
            if not buffers:
                break
            for header, batch in _walk(buffers):
                offset = header
                for record in batch:
                    found = progress_in(record) or found
        if found is not None:
            return found
        stop, step = start, step * 4
    return None


def _walk(buffers: list[memoryview]) -> Iterator[tuple[int, list[Record]]]:
    """Yield the offset after each batch, and its records unless it is a marker."""
    for buffer in buffers:
        for position, header in walk(buffer):
            batch = buffer[position : position + header.size]
            yield header.next_offset, [] if header.is_control else read_records(batch)


def _batches(body: bytes) -> Iterator[tuple[list[Record], Compression]]:
    """Yield records that have the same compression, small batches together."""
    view = memoryview(body)
    gathered: list[Record] = []
    size, last = 0, Compression.NONE
    for position, header in walk(view):
        compression = Compression(header.attributes & COMPRESSION_MASK)
        if gathered and (compression is not last or size + header.size > STEP_BYTES):
            yield gathered, last
            gathered, size = [], 0
        gathered += read_records(view[position : position + header.size])
        size, last = size + header.size, compression
    if gathered:
        yield gathered, last


def _steps(records: Sequence[Record]) -> Iterator[Sequence[Record]]:
    """Yield the records in parts that are appended at once."""
    start, size = 0, 0
    for number, record in enumerate(records):
        length = len(record.key or b"") + len(record.value or b"")
        if number > start and (size + length > STEP_BYTES or number - start >= STEP_RECORDS):
            yield records[start:number]
            start, size = number, 0
        size += length
    yield records[start:]
