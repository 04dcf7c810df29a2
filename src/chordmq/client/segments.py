"""Reads a partition's segment files where they lie, for programs on the node's own machine.

What the files hold below the end that the broker tells does not change any more; what they do not
hold, because it was removed or lies elsewhere, is asked of the broker.
"""

import mmap
import os
import struct
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Self

from chordmq.client.bulk import Bulk, Fetched, OffsetRange, overlapping
from chordmq.client.errors import ClientError
from chordmq.client.fetcher import Visible, visible_batches, whole_batches
from chordmq.errors import ChordMQError
from chordmq.records.batch import HEADER_SIZE, BatchHeader, read_header

CHUNK_BYTES = 8 * 1024 * 1024
STEPS_MAX = 20_000
"""Batches to go through from an index entry on: the index of a growing file is behind."""
_ENTRY = struct.Struct(">II")
_ENDLESS = 2**63 - 1


class NotIndexed(Exception):
    """A place in a file can only be found by going through much of it."""


def logs_in_sight(broker: Bulk, part: OffsetRange) -> Path | None:
    """Return where the leader's logs lie, if this machine has them, and they are the leader's.

    The leader says the directory, and sends the batch with the last offset that is wanted: who may
    not read it, or reads further than the log goes, gets none. Files that hold the very same bytes
    at that place, offset and leader epoch included, are a copy of the same log up to there.
    """
    try:
        logs = Path(broker.logs_of(part.topic, part.partition))
        if not _directory(logs, part).is_dir():
            return None
        sent = broker.batch_at(part.topic, part.partition, part.stop - 1)
        return logs if sent and _stored(logs, part, sent) else None
    except (ClientError, OSError, ChordMQError, NotIndexed):
        return None


def read_segments(
    logs: Path, part: OffsetRange, *, committed: bool = True, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[Fetched]:
    """Yield what the files have of a range, from its start on and without a gap.

    Ends early where a file is missing or damaged and, for readers of what is `committed`, before
    the first transaction; `next_offset` of the last chunk says where to go on. A chunk is good
    until the next is asked for, which is read into the same memory.
    """
    offset = part.start
    room = memoryview(mmap.mmap(-1, chunk_bytes))
    directory = _directory(logs, part)
    for base, following in pairwise([*_bases(directory), _ENDLESS]):
        if not base <= offset < min(following, part.stop):
            continue
        try:
            with _File(directory, base) as file:
                for chunk in _chunks(file, replace(part, start=offset), room):
                    settled = _settled(chunk) if committed else chunk
                    offset = settled.visible.next_offset
                    yield settled
                    if settled is not chunk:
                        return
        except (OSError, ChordMQError, NotIndexed):
            return


class _File:
    """One segment file; opened anew for each range, so that it is never one that was replaced."""

    def __init__(self, directory: Path, base: int) -> None:
        self._path = directory / f"{base:020}.log"
        self._base = base

    def __enter__(self) -> Self:
        self._file = os.open(self._path, os.O_RDONLY)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    def read(self, room: memoryview, position: int) -> memoryview:
        """Fill the room, as far as the file goes; what is cut off meanwhile is just not there."""
        return room[: os.preadv(self._file, [room], position)]

    def header(self, position: int) -> BatchHeader:
        """Return the header of the batch at a position."""
        return read_header(os.pread(self._file, HEADER_SIZE, position))

    def find(self, offset: int) -> int:
        """Return the position of the batch with an offset; raise CorruptBatch if there is none."""
        position = self._expected(offset)
        for _ in range(STEPS_MAX):
            header = self.header(position)
            if header.next_offset > offset:
                return position
            position += header.size
        raise NotIndexed(f"{self._path} has no index entry near offset {offset}")

    def _expected(self, offset: int) -> int:
        """Return where to look first: where the sparse index says, if there is such a batch."""
        try:
            # Apache Kafka fills the index of a growing file up with zeros.
            index = self._path.with_suffix(".index").read_bytes().rstrip(b"\0")
            index += bytes(-len(index) % _ENTRY.size)
            entries = range(0, len(index), _ENTRY.size)
            place = bisect_right(
                entries, offset - self._base, key=lambda at: _ENTRY.unpack_from(index, at)[0]
            )
            relative, position = _ENTRY.unpack_from(index, entries[place - 1]) if place else (0, 0)
            found = self.header(position).base_offset == self._base + relative
        except (OSError, ChordMQError, struct.error):
            return 0
        return position if found else 0


def _chunks(file: _File, part: OffsetRange, room: memoryview) -> Iterator[Fetched]:
    """Yield the batches of one file that belong to a range, as many at a time as there is room."""
    position, offset = file.find(part.start), part.start
    while offset < part.stop:
        data = whole_batches(file.read(room, position))
        found = visible_batches(data, ())
        if found.next_offset <= offset:  # the end of the file, or a batch larger than the room
            return
        offset = found.next_offset
        position += len(data)
        yield Fetched(data, found._replace(batches=overlapping(found, part)))


def _settled(chunk: Fetched) -> Fetched:
    """Return what comes before the first transaction: which were aborted, only the broker knows."""
    for place, (_, header) in enumerate(chunk.visible.batches):
        if header.is_transactional:
            return Fetched(chunk.data, Visible(chunk.visible.batches[:place], header.base_offset))
    return chunk


def _stored(logs: Path, part: OffsetRange, sent: bytes) -> bool:
    """Return whether the files have this batch where it has to be."""
    offset = read_header(sent).base_offset
    directory = _directory(logs, part)
    bases = [base for base in _bases(directory) if base <= offset]
    if not bases:
        return False
    with _File(directory, bases[-1]) as file:
        room = memoryview(bytearray(len(sent)))
        return file.read(room, file.find(offset)) == sent


def _directory(logs: Path, part: OffsetRange) -> Path:
    return logs / f"{part.topic}-{part.partition}"


def _bases(directory: Path) -> list[int]:
    return sorted(int(path.stem) for path in directory.glob("*.log"))
