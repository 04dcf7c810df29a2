"""One segment file and its indexes: appended at the end, read in whole, checked batches.

Within a segment each batch begins at the offset at which the one before it ended (compaction fills
its gaps with batches without records). This, the leader epoch and the checksum together cover
every byte of a batch, so that a flipped bit anywhere is noticed before a reader gets it.
"""

import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from chordmq.errors import CorruptBatch, StorageFailed
from chordmq.records.batch import (
    CRC_START,
    HEADER_SIZE,
    LENGTH_END,
    MAGIC,
    BatchHeader,
    read_header,
)
from chordmq.records.checksum import crc32c
from chordmq.storage import files
from chordmq.storage.cold import ColdRange, is_cached
from chordmq.storage.epochs import Epochs
from chordmq.storage.index import START, Index, Place, SealedIndex
from chordmq.storage.metadata.segments import SegmentEntry

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
SCAN_BYTES = 1 << 20
INDEX_INTERVAL = 4096
NO_TIMESTAMP = -1

_FRONT = struct.Struct(">qiibIhi")
_LENGTH = struct.Struct(">i")
_READ_AHEAD = 8 << 10  # an index entry may lie this far before the batch that is asked for


class Piece(NamedTuple):
    """Whole batches that were read, and where to go on."""

    data: memoryview
    next_offset: int
    position: int


class Segment:
    """One `.log` file; `index` and `fd` are set while its end is not known to be on disk."""

    __slots__ = (
        "_indexed_at",
        "base_offset",
        "created_ms",
        "directory",
        "fd",
        "index",
        "index_rebuilt",
        "max_timestamp",
        "max_timestamp_offset",
        "next_offset",
        "size",
    )

    def __init__(self, directory: Path, base_offset: int, created_ms: int) -> None:
        self.directory = directory
        self.base_offset = base_offset
        self.created_ms = created_ms
        self.next_offset = base_offset
        self.size = 0
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        self.index: Index | None = None
        self.fd: int | None = None
        self.index_rebuilt = False
        self._indexed_at = 0

    @classmethod
    def create(cls, directory: Path, base_offset: int, created_ms: int) -> "Segment":
        """Begin a new file."""
        segment = cls(directory, base_offset, created_ms)
        segment.index = Index()
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        try:
            segment.fd = os.open(segment.path, flags, 0o644)
        except OSError as error:
            raise files.write_fault(segment.path, error) from error
        return segment

    @classmethod
    def from_entry(cls, directory: Path, entry: SegmentEntry) -> "Segment":
        """Return a segment as the catalogue knows it."""
        segment = cls(directory, entry.base_offset, entry.created_ms)
        segment.next_offset = entry.next_offset
        segment.size = entry.size
        segment.max_timestamp = entry.max_timestamp
        segment.max_timestamp_offset = entry.max_timestamp_offset
        return segment

    def entry(self) -> SegmentEntry:
        """Return what the catalogue should know."""
        return SegmentEntry(
            base_offset=self.base_offset,
            next_offset=self.next_offset,
            size=self.size,
            max_timestamp=self.max_timestamp,
            max_timestamp_offset=self.max_timestamp_offset,
            created_ms=self.created_ms,
        )

    @property
    def path(self) -> Path:
        """Return the path of the log file."""
        return path_of(self.directory, self.base_offset, LOG_SUFFIX)

    @property
    def index_paths(self) -> tuple[Path, Path]:
        """Return the paths of the offset index and the time index."""
        return (
            path_of(self.directory, self.base_offset, INDEX_SUFFIX),
            path_of(self.directory, self.base_offset, TIME_INDEX_SUFFIX),
        )

    def append(
        self, pieces: Sequence[memoryview], headers: Sequence[BatchHeader], index_interval: int
    ) -> None:
        """Write the batches with one call; on failure the file is as it was."""
        assert self.fd is not None
        try:
            if len(pieces) == 1:
                written = os.write(self.fd, pieces[0])
            else:
                written = os.writev(self.fd, pieces)
            if written < sum(map(len, pieces)):
                self._write_rest(pieces, written)
        except OSError as error:
            os.ftruncate(self.fd, self.size)
            raise files.write_fault(self.path, error) from error
        for header in headers:
            self.note(header, index_interval)

    def _write_rest(self, pieces: Sequence[memoryview], written: int) -> None:
        """Go on after a write in part, which only a full disk does; the next call says why."""
        assert self.fd is not None
        for piece in pieces:
            rest = piece[written:]
            written = max(written - len(piece), 0)
            while rest:
                rest = rest[os.write(self.fd, rest) :]

    def note(self, header: BatchHeader, index_interval: int) -> None:
        """Take the batch that stands at the end of the file into account."""
        position = self.size
        if position - self._indexed_at >= index_interval:
            assert self.index is not None
            self.index.add(header.base_offset - self.base_offset, position, self.max_timestamp)
            self._indexed_at = position
        if header.max_timestamp > self.max_timestamp:
            self.max_timestamp = header.max_timestamp
            self.max_timestamp_offset = header.base_offset
        self.next_offset = header.base_offset + header.last_offset_delta + 1
        self.size = position + header.size

    def open_for_append(self, index: Index) -> None:
        """Let the segment grow again, with the index of what it has."""
        self.fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        self.index = index
        self._indexed_at = index.floor(self.next_offset - self.base_offset).position

    def rest(self) -> None:
        """Keep nothing open: the file and its indexes are complete and on disk."""
        if self.fd is not None:
            os.close(self.fd)
        self.fd = self.index = None

    def place(self, offset: int) -> Place:
        """Return where to start looking for the offset; may raise BrokenIndex."""
        return self._lookup().floor(offset - self.base_offset)

    def place_of_time(self, timestamp: int) -> Place:
        """Return where to start looking for the first record at or after the timestamp."""
        return self._lookup().floor_time(timestamp)

    def read(
        self, place: Place, wanted: "Wanted", epochs: Epochs, *, at_least_one: bool = True
    ) -> Piece:
        """Return checked batches from the one that contains the wanted offset on.

        Raises CorruptBatch when the first of them, or one on the way to it, is damaged.
        """
        expected = self.base_offset + place.relative_offset
        position, size = place.position, wanted.max_bytes + _READ_AHEAD
        while position < self.size:
            view = memoryview(self._pread(min(size, self.size - position), position))
            try:
                start, end, expected, stopped = _take(view, expected, wanted, epochs, at_least_one)
            except CorruptBatch as fault:
                raise CorruptBatch(f"{self.path} after byte {position}: {fault}") from fault
            if start < end or stopped:
                return Piece(view[start:end], expected, position + end)
            if position + len(view) >= self.size:
                raise CorruptBatch(f"{self.path} at byte {position + end}: batch is cut off")
            position += end
            size = self._batch_size(view[end:], position, self.size)
        return Piece(memoryview(b""), self.next_offset, self.size)

    def cold(self, position: int, size: int) -> ColdRange | None:
        """Return what must come from the disk before so many bytes can be read without waiting."""
        last = min(position + size, self.size) - 1
        if last < position:
            return None
        if self.fd is None:
            with self.opened() as fd:
                return _cold(fd, position, last)
        return _cold(self.fd, position, last)

    def _pread(self, size: int, position: int) -> bytes:
        """Read bytes; of the active segment by its own descriptor."""
        if self.fd is not None:
            return _pread(self.fd, size, position)
        with self.opened() as fd:
            return _pread(fd, size, position)

    def scan(
        self,
        place: Place = START,
        end: int | None = None,
        *,
        chunk_bytes: int = SCAN_BYTES,
        epochs: Epochs | None = None,
    ) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        """Yield (position, header, batch) in order; raise CorruptBatch at the first bad one."""
        position, expected = place.position, self.base_offset + place.relative_offset
        end = self.size if end is None else end
        with self.opened() as fd:
            while position < end:
                view = memoryview(_pread(fd, min(chunk_bytes, end - position), position))
                done = 0
                try:
                    for at, end_at, following, epoch in _checked(view, expected):
                        if epochs is not None and epoch != epochs.at(expected):
                            raise _wrong_epoch(expected, epoch)
                        yield position + at, read_header(view, at), view[at:end_at]
                        done, expected = end_at, following
                except CorruptBatch as fault:
                    raise CorruptBatch(f"{self.path} at byte {position + done}: {fault}") from fault
                position += done
                if not done:
                    if position + len(view) >= end:
                        raise CorruptBatch(f"{self.path} at byte {position}: batch is cut off")
                    chunk_bytes = max(chunk_bytes, self._batch_size(view, position, end))

    def _batch_size(self, view: memoryview, position: int, end: int) -> int:
        """Return how much to read for a batch of which the view has only the beginning."""
        if len(view) < LENGTH_END:
            return _READ_AHEAD
        size: int = _LENGTH.unpack_from(view, LENGTH_END - _LENGTH.size)[0] + LENGTH_END
        if size > end - position:
            raise CorruptBatch(f"{self.path} at byte {position}: batch is cut off")
        return size

    def rebuild_index(self) -> None:
        """Make new index files from the log file; raise CorruptBatch if it is damaged itself."""
        self.index_rebuilt = True
        copy = Segment(self.directory, self.base_offset, self.created_ms)
        copy.index = Index()
        for _, header, _ in self.scan():
            copy.note(header, INDEX_INTERVAL)
        copy.index.unsaved().save(*self.index_paths)

    @contextmanager
    def opened(self) -> Iterator[int]:
        """Give a descriptor to read from, which outlives a replacement of the file."""
        try:
            if self.fd is None:
                fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            else:
                fd = os.dup(self.fd)
        except OSError as error:
            raise StorageFailed(f"cannot open {self.path}: {error}") from error
        try:
            yield fd
        finally:
            os.close(fd)

    def _lookup(self) -> Index | SealedIndex:
        return SealedIndex(*self.index_paths) if self.index is None else self.index


class Wanted(NamedTuple):
    """What a reader asks for: batches from `offset` on, those which start below `limit`."""

    offset: int
    max_bytes: int
    limit: int


def path_of(directory: Path, base_offset: int, suffix: str) -> Path:
    """Return the path of one of a segment's files."""
    return directory / f"{base_offset:020d}{suffix}"


def _cold(fd: int, first: int, last: int) -> ColdRange | None:
    if is_cached(fd, first) and is_cached(fd, last):
        return None
    try:
        return ColdRange(os.dup(fd), first, last + 1 - first)
    except OSError:  # no descriptor is free: then whoever reads has to wait
        return None


def _pread(fd: int, size: int, position: int) -> bytes:
    try:
        data = os.pread(fd, size, position)
    except OSError as error:
        raise StorageFailed(f"the disk refused a read: {error}") from error
    if len(data) < size:
        raise CorruptBatch(f"the file ends after byte {position + len(data)}")
    return data


def _checked(view: memoryview, expected: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield (position, end, next offset, leader epoch) of each batch that is whole and sound.

    Stops before a batch that is cut off, and raises CorruptBatch at one that is damaged.
    """
    position, size = 0, len(view)
    while size - position >= HEADER_SIZE:
        base, length, epoch, magic, crc, _, delta = _FRONT.unpack_from(view, position)
        if base != expected:
            raise CorruptBatch(f"batch says offset {base}, not {expected}")
        if magic != MAGIC or length < HEADER_SIZE - LENGTH_END or delta < 0:
            raise CorruptBatch(f"batch at offset {expected} has no sound header")
        end = position + LENGTH_END + length
        if end > size:
            return
        if crc32c(view[position + CRC_START : end]) != crc:
            raise CorruptBatch(f"batch at offset {expected} fails its checksum")
        expected = base + delta + 1
        yield position, end, expected, epoch
        position = end


def _wrong_epoch(offset: int, epoch: int) -> CorruptBatch:
    return CorruptBatch(f"batch at offset {offset} says leader epoch {epoch}")


def _take(
    view: memoryview, expected: int, wanted: Wanted, epochs: Epochs, at_least_one: bool
) -> tuple[int, int, int, bool]:
    """Return (start, end, next offset) of the wanted batches, and whether more must not follow.

    When the view ends before the first wanted batch does, start and end are where that one begins.
    """
    offset, max_bytes, limit = wanted
    start = end = 0
    try:
        for _, after, following, epoch in _checked(view, expected):
            if epoch != epochs.at(expected):
                raise _wrong_epoch(expected, epoch)
            if following <= offset:
                start = end = after
            else:
                full = after - start > max_bytes and not (at_least_one and start == end)
                if full or expected >= limit:
                    return start, end, expected, True
                end = after
            expected = following
    except CorruptBatch:
        if start == end:
            raise
        return start, end, expected, True
    return start, end, expected, False
