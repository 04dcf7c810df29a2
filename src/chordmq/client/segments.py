"""Reads a partition's segment files where they lie, for programs on the node's own machine.

What the files hold below the end that the broker tells does not change any more; what they do not
hold, because it was removed or lies elsewhere, is asked of the broker.
"""

import mmap
import struct
from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from chordmq.client.bulk import Fetched, OffsetRange
from chordmq.client.fetcher import visible_batches
from chordmq.errors import ChordMQError
from chordmq.records.batch import BatchHeader, read_header

CHUNK_BYTES = 8 * 1024 * 1024
_ENTRY = struct.Struct(">II")
_ENDLESS = 2**63 - 1


class _Wanted(NamedTuple):
    """The offsets that are asked of one file, and the first that it has."""

    base: int
    start: int
    stop: int


class _Transactional(Exception):
    """A batch belongs to a transaction: whether that was aborted, only the broker knows."""


def read_segments(
    data_directory: Path, part: OffsetRange, *, committed: bool = True
) -> Iterator[Fetched]:
    """Yield what the files have of a range, from its start on and without a gap.

    Ends early where a file is missing or damaged and, for readers of what is `committed`, before
    the first transaction; `next_offset` of the last chunk says where to go on.
    """
    directory = data_directory / "topics" / f"{part.topic}-{part.partition}"
    bases = sorted(int(path.stem) for path in directory.glob("*.log"))
    offset = part.start
    for base, following in pairwise([*bases, _ENDLESS]):
        if not base <= offset < min(following, part.stop):
            continue
        try:
            for chunk in _chunks(directory, _Wanted(base, offset, part.stop), committed):
                offset = chunk.visible.next_offset
                yield chunk
        except (_Transactional, OSError, ChordMQError):
            return


def _chunks(directory: Path, wanted: _Wanted, committed: bool) -> Iterator[Fetched]:
    """Yield the batches of one file that end after the start, some megabytes at a time."""
    path = directory / f"{wanted.base:020}.log"
    with path.open("rb") as file:
        size = path.stat().st_size
        if not size:
            return
        data = memoryview(mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ))
    begin = position = _position(path, data, wanted)
    while position < len(data):
        header = read_header(data, position)
        if header.base_offset >= wanted.stop:
            break
        if header.next_offset <= wanted.start:
            begin = position + header.size
        elif committed and _is_of_a_transaction(header):
            if begin < position:
                yield _fetched(data[begin:position])
            raise _Transactional
        position += header.size
        if position - begin >= CHUNK_BYTES:
            yield _fetched(data[begin:position])
            begin = position
    if begin < position:
        yield _fetched(data[begin:position])


def _fetched(data: memoryview) -> Fetched:
    return Fetched(data, visible_batches(data, ()))


def _is_of_a_transaction(header: BatchHeader) -> bool:
    return header.is_transactional and not header.is_control


def _position(path: Path, data: memoryview, wanted: _Wanted) -> int:
    """Return where to begin: where the sparse index says, if there is such a batch."""
    base = wanted.base
    try:
        entries = list(_ENTRY.iter_unpack(path.with_suffix(".index").read_bytes()))
        place = bisect_right(entries, wanted.start - base, key=lambda entry: entry[0]) - 1
        relative, position = entries[place] if place >= 0 else (0, 0)
        found = read_header(data, position).base_offset == base + relative
    except (OSError, ChordMQError, struct.error):
        return 0
    return position if found else 0
