"""Sparse index: offset or time to file position, in memory while it grows, on disk when sealed.

Both files are big-endian and hold one entry about every 4 KiB of log, at the same batches:

    .index      relative offset u32, position u32      a batch with this base offset starts there
    .timeindex  timestamp i64, relative offset u32     no record before that batch is later

Entries are hints: who follows one checks the batch that it finds there.
"""

import os
import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

OFFSET_ENTRY_SIZE = 8
TIME_ENTRY_SIZE = 12
RELATIVE_OFFSET_MAX = 2**31 - 1

_OFFSET_ENTRY = struct.Struct(">Q")
_TIME_ENTRY = struct.Struct(">qI")
_POSITION_MASK = 0xFFFFFFFF


class Place(NamedTuple):
    """Where a batch is expected: its offset relative to the segment's base, and its position."""

    relative_offset: int
    position: int


START = Place(0, 0)


class BrokenIndex(Exception):
    """An index file is missing or cannot be one; it is rebuilt from the log."""


class IndexWrite(NamedTuple):
    """Entries on their way to the files, and where in the files they go."""

    first: int
    offsets: bytes
    times: bytes

    def save(self, index_path: Path, time_path: Path) -> None:
        """Write the entries and wait until the disk has them."""
        _write_at(index_path, self.first * OFFSET_ENTRY_SIZE, self.offsets)
        _write_at(time_path, self.first * TIME_ENTRY_SIZE, self.times)


class Index:
    """The entries of a segment that is being written."""

    __slots__ = ("_entries", "_times", "saved")

    def __init__(self) -> None:
        # One number per entry, relative offset above position, so that bisect runs in C.
        self._entries = array("Q")
        self._times = array("q")
        self.saved = 0
        """How many entries are in the files."""

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, relative_offset: int, position: int, latest_before: int) -> None:
        """Note a batch; `latest_before` is the latest timestamp of the segment before it."""
        self._entries.append(relative_offset << 32 | position)
        self._times.append(latest_before)

    def floor(self, relative_offset: int) -> Place:
        """Return the last noted batch that starts at or before the offset."""
        found = bisect_right(self._entries, relative_offset << 32 | _POSITION_MASK)
        return _place(self._entries[found - 1]) if found else START

    def floor_time(self, timestamp: int) -> Place:
        """Return the last noted batch before which every record is earlier than `timestamp`."""
        found = bisect_left(self._times, timestamp)
        return _place(self._entries[found - 1]) if found else START

    def unsaved(self) -> IndexWrite:
        """Return what the files do not have yet."""
        offsets = self._entries[self.saved :]
        if sys.byteorder == "little":
            offsets.byteswap()
        times = b"".join(
            _TIME_ENTRY.pack(time, entry >> 32)
            for time, entry in zip(
                self._times[self.saved :], self._entries[self.saved :], strict=True
            )
        )
        return IndexWrite(self.saved, offsets.tobytes(), times)

    @classmethod
    def load(cls, index_path: Path, time_path: Path, log_size: int) -> "Index":
        """Read the entries below `log_size` back from the files; raise BrokenIndex if they lie."""
        index = cls()
        try:
            offsets, times = index_path.read_bytes(), time_path.read_bytes()
        except FileNotFoundError as missing:
            raise BrokenIndex(f"{missing.filename} is missing") from missing
        count = len(offsets) // OFFSET_ENTRY_SIZE
        if len(offsets) % OFFSET_ENTRY_SIZE or len(times) != count * TIME_ENTRY_SIZE:
            raise BrokenIndex(f"{index_path} and {time_path.name} do not fit together")
        last_entry = last_time = -1
        for (entry,), (time, relative) in zip(
            _OFFSET_ENTRY.iter_unpack(offsets), _TIME_ENTRY.iter_unpack(times), strict=True
        ):
            if entry <= last_entry or time < last_time or relative != entry >> 32:
                raise BrokenIndex(f"{index_path} does not grow")
            if entry & _POSITION_MASK >= log_size:
                break
            index._entries.append(entry)
            index._times.append(time)
            last_entry, last_time = entry, time
        index.saved = len(index)
        return index


class SealedIndex:
    """The entries of a finished segment, looked up in the files, with nothing held in memory."""

    __slots__ = ("_index_path", "_time_path")

    def __init__(self, index_path: Path, time_path: Path) -> None:
        self._index_path = index_path
        self._time_path = time_path

    def floor(self, relative_offset: int) -> Place:
        """Return the last noted batch that starts at or before the offset."""
        with _opened(self._index_path, OFFSET_ENTRY_SIZE) as (fd, count):
            entries = _OffsetEntries(fd, count)
            found = bisect_right(entries, relative_offset << 32 | _POSITION_MASK)
            return _place(entries[found - 1]) if found else START

    def floor_time(self, timestamp: int) -> Place:
        """Return the last noted batch before which every record is earlier than `timestamp`."""
        with _opened(self._time_path, TIME_ENTRY_SIZE) as (fd, count):
            found = bisect_left(_Times(fd, count), timestamp)
        if not found:
            return START
        with _opened(self._index_path, OFFSET_ENTRY_SIZE) as (fd, count):
            if found > count:
                raise BrokenIndex(f"{self._index_path} is shorter than its time index")
            return _place(_OffsetEntries(fd, count)[found - 1])


class _OffsetEntries:
    """An index file as a sequence that bisect can search: one small read per step."""

    def __init__(self, fd: int, count: int) -> None:
        self._fd = fd
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> int:
        data = os.pread(self._fd, OFFSET_ENTRY_SIZE, number * OFFSET_ENTRY_SIZE)
        entry: int = _OFFSET_ENTRY.unpack(data)[0]
        return entry


class _Times(_OffsetEntries):
    """The timestamps of a time index file, in the same way."""

    def __getitem__(self, number: int) -> int:
        data = os.pread(self._fd, TIME_ENTRY_SIZE, number * TIME_ENTRY_SIZE)
        timestamp: int = _TIME_ENTRY.unpack(data)[0]
        return timestamp


@contextmanager
def _opened(path: Path, entry_size: int) -> Iterator[tuple[int, int]]:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError as missing:
        raise BrokenIndex(f"{path} is missing") from missing
    try:
        count, rest = divmod(os.fstat(fd).st_size, entry_size)
        if rest:
            raise BrokenIndex(f"{path} ends within an entry")
        yield fd, count
    finally:
        os.close(fd)


def _place(entry: int) -> Place:
    return Place(entry >> 32, entry & _POSITION_MASK)


def _write_at(path: Path, position: int, data: bytes) -> None:
    """Make the file end with `data` at `position`, and sync it."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.pwrite(fd, data, position)
        os.ftruncate(fd, position + len(data))
        os.fdatasync(fd)
    finally:
        os.close(fd)
