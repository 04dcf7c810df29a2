"""Where records and the numbers in them lie in a buffer, found for many at once by NumPy.

Sizes lead from one record to the next, so that a batch can only be followed step by step; but many
batches are followed side by side, one record of each at every step.
"""

from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from chordmq.errors import CorruptBatch

Longs: TypeAlias = npt.NDArray[np.int64]
Octets: TypeAlias = npt.NDArray[np.uint8]

RECORD_BYTES_MIN = 7
"""Size, attributes, time, offset, key, value and headers take a byte each at least."""
VARINT_BYTES_MAX = 10
WORD_NUMBERS = 3
SIDE_BY_SIDE_MIN = 24
"""With fewer batches than this, a step for all of them takes longer than a loop over each."""


def _short_varints() -> tuple[Longs, Longs]:
    """Return number and size of what two bytes can begin with; size 0 if it takes a third byte."""
    pair = np.arange(1 << 16, dtype=np.int64)
    low, high = pair & 0xFF, pair >> 8
    raw = np.where(low > 0x7F, (low & 0x7F) | high << 7, low)
    size = np.where(low <= 0x7F, 1, np.where(high <= 0x7F, 2, 0))
    return (raw >> 1) ^ -(raw & 1), size


_NUMBER, _SIZE = _short_varints()
_KNOWN = _NUMBER << 2 | _SIZE
_ADVANCE = np.where((_SIZE > 0) & (_NUMBER >= 0), _NUMBER + _SIZE, 0)
"""How far the next record is; 0 where a loop has to look."""


def find_records(data: Octets, begins: Longs, ends: Longs, records: Longs) -> tuple[Longs, Longs]:
    """Return where each record of each batch begins (after its size) and stops."""
    if ((records < 0) | (records * RECORD_BYTES_MIN > ends - begins)).any():
        raise CorruptBatch("a batch counts more records than fit in it")
    last = np.cumsum(records)
    starts = np.empty(int(records.sum()), dtype=np.int64)
    stops = np.empty_like(starts)
    reached = _side_by_side(data, begins, records, starts)
    stops[:-1] = starts[1:]
    stops[(last - 1)[records > 0]] = ends[records > 0]
    starts += 1 + (data[starts] > 0x7F)
    for index in np.flatnonzero(reached != ends).tolist():
        rows = slice(last[index] - records[index], last[index])
        begin, end = int(begins[index]), int(ends[index])
        found = _walk(data[begin:end].tobytes(), begin, int(records[index]))
        starts[rows], stops[rows] = found
    return starts, stops


def _side_by_side(data: Octets, begins: Longs, counts: Longs, starts: Longs) -> Longs:
    """Fill in where records start, those of long batches last; return how far each batch came."""
    starts.fill(0)
    order = np.argsort(-counts, kind="stable")
    at, left = begins[order], counts[order]
    slot = (np.cumsum(counts) - counts)[order]
    pairs = _overlapping(data, "<u2")
    step = 0
    for count in np.unique(counts).tolist():
        together = int(np.count_nonzero(left >= count))
        if together < SIDE_BY_SIDE_MIN:
            break
        places = np.empty((count - step + 1, together), dtype=np.int64)
        places[0] = at[:together]
        for here, following in pairwise(places):
            np.add(here, _ADVANCE.take(pairs[here]), following)
        rows = slot[:together, np.newaxis] + np.arange(step, count)
        starts[rows] = places[:-1].T
        at[:together] = places[-1]
        step = count
    reached = np.empty_like(at)
    reached[order] = at
    return reached


def _overlapping(data: Octets, kind: str) -> npt.NDArray[Any]:
    """Return the number that begins at each byte, without copying them."""
    wide = np.dtype(kind)
    return np.ndarray((max(0, len(data) - wide.itemsize + 1),), wide, data, strides=(1,))


def _walk(body: bytes, shift: int, count: int) -> tuple[list[int], list[int]]:
    """Follow the sizes from record to record."""
    starts: list[int] = []
    stops: list[int] = []
    begin, finish = starts.append, stops.append
    at, end = 0, len(body)
    for _ in range(count):
        size = body[at]
        at += 1
        if size > 0x7F:
            following = body[at]
            if following > 0x7F:
                size, at = _long_size(body, at, size)
            else:
                size += (following << 7) - 0x80
                at += 1
        begin(at + shift)
        at += size >> 1
        if size & 1 or at > end:
            raise CorruptBatch("a record's size does not fit its batch")
        finish(at + shift)
    if at != end:
        raise CorruptBatch("bytes follow the last record of the batch")
    return starts, stops


def _long_size(body: bytes, at: int, byte: int) -> tuple[int, int]:
    size, shift = byte & 0x7F, 7
    while byte > 0x7F:
        byte = body[at]
        at += 1
        size |= (byte & 0x7F) << shift
        shift += 7
    return size, at


def read_varints(data: Octets, at: Longs, count: int) -> tuple[list[Longs], Longs]:
    """Read `count` numbers that follow each other at each position; return what follows them, too.

    Eight bytes are read at once, and hold three numbers of two bytes; a longer one is read alone.
    """
    assert count <= WORD_NUMBERS
    words = _overlapping(data, "<i8" if count > 1 else "<u2")
    found: list[Longs] = []
    while len(found) < count:
        if len(at) and at.max() < len(words):
            at = _read_short(words[at].astype(np.int64), at, count, found)
        if len(found) < count:
            number, at = read_long_varints(data, at)
            found.append(number)
    return found, at


def _read_short(word: Longs, at: Longs, count: int, found: list[Longs]) -> Longs:
    """Read numbers until there are `count`, or one takes three bytes; return what follows them."""
    while len(found) < count:
        known = _KNOWN.take(word & 0xFFFF)
        size = known & 3
        if not size.all():
            break
        found.append(known >> 2)
        at = at + size
        word >>= size << 3
    return at


def read_long_varints(data: Octets, at: Longs) -> tuple[Longs, Longs]:
    """Read one number of any size at each position; return them and the positions after them."""
    byte = data[at].astype(np.int64)
    number = byte & 0x7F
    at = at + 1
    open_ = np.flatnonzero(byte > 0x7F)
    shift = 7
    while len(open_):
        if shift >= 7 * VARINT_BYTES_MAX:
            raise CorruptBatch("a number in a record is longer than ten bytes")
        byte = data[at[open_]].astype(np.int64)
        number[open_] |= (byte & 0x7F) << shift
        at[open_] += 1
        open_ = open_[byte > 0x7F]
        shift += 7
    unsigned = number.view(np.uint64)
    return (unsigned >> np.uint64(1)).view(np.int64) ^ -(number & 1), at
