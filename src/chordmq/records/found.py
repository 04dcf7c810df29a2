"""Records found by NumPy for many batches together, and gathered by Arrow; needs no compiler."""

from collections.abc import Iterable
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chordmq.dataclass import dataclass
from chordmq.errors import CorruptBatch
from chordmq.records.arrow import TIMESTAMP, Columns, headers, numbers
from chordmq.records.positions import Longs, Octets, find_records, read_varints


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Records of some batches: where their parts lie in one buffer, out of which nothing is copied.

    A key or value that stops before it starts is null.
    """

    PORTION_BYTES: ClassVar = 8 * 1024 * 1024
    """Each step is taken for all batches at once: the more there are, the less each costs."""

    data: Octets
    offsets: Longs
    times: Longs
    """In milliseconds."""
    appended: Longs
    """1 for a record with the time of its append."""
    keys: tuple[Longs, Longs]
    values: tuple[Longs, Longs]
    headers: tuple[Longs, Longs]

    @classmethod
    def find(
        cls, data: Octets, batches: Longs, names: Iterable[str], start: int, stop: int
    ) -> Self:
        """Find the records with start <= offset < stop; any column can be made of them."""
        try:
            return cls._find(data, batches, start, stop)
        except IndexError as error:
            raise CorruptBatch(f"a record is malformed: {error}") from error

    @classmethod
    def _find(cls, data: Octets, batches: Longs, start: int, stop: int) -> Self:
        begins, ends, counts, base_offsets, base_times, is_append_time = batches.T
        starts, stops = find_records(data, begins, ends, counts)
        (time, delta, key_size), at = read_varints(data, starts + 1, 3)
        offsets = delta + np.repeat(base_offsets, counts)
        appended = np.repeat(is_append_time, counts)
        times = np.repeat(base_times, counts) + np.where(appended, 0, time)
        kept = _within(offsets, start, stop)
        stops = stops[kept]
        key, at = _span(at[kept], key_size[kept], stops)
        (value_size,), at = read_varints(data, at, 1)
        value, at = _span(at, value_size, stops)
        return cls(
            data=data,
            offsets=offsets[kept],
            times=times[kept],
            appended=appended[kept],
            keys=key,
            values=value,
            headers=(at, stops),
        )

    @property
    def count(self) -> int:
        """Return how many records there are."""
        return len(self.offsets)

    def columns(self, names: Iterable[str], begin: int, end: int) -> Columns:
        """Return the columns of some of the records."""
        rows = slice(begin, end)
        try:
            arrays = {name: self._column(name, rows) for name in names}
        except (IndexError, UnicodeDecodeError, pa.ArrowInvalid) as error:
            raise CorruptBatch(f"a record is malformed: {error}") from error
        return Columns(len(self.offsets[rows]), arrays)

    def _column(self, name: str, rows: slice) -> pa.Array:
        match name:
            case "offset":
                return numbers(self.offsets[rows], pa.int64())
            case "timestamp":
                return numbers(self.times[rows] * 1000, TIMESTAMP)
            case "timestampType":
                return numbers(self.appended[rows].astype(np.int32), pa.int32())
            case "key":
                return _gather(self.data, *(edge[rows] for edge in self.keys))
            case "value":
                return _gather(self.data, *(edge[rows] for edge in self.values))
            case "headers":
                return headers(self.data, *(edge[rows] for edge in self.headers))
        raise KeyError(name)


def _within(offsets: Longs, start: int, stop: int) -> slice:
    """Return where the offsets of a range lie; they go up, unless someone has damaged them."""
    if len(offsets) and start <= offsets.min() and offsets.max() < stop:
        return slice(None)
    return slice(*np.searchsorted(offsets, [start, stop]))


def _span(at: Longs, size: Longs, stops: Longs) -> tuple[tuple[Longs, Longs], Longs]:
    """Return where bytes of a size start and stop, and what follows them."""
    if (size < -1).any():
        raise CorruptBatch("a key or value has a size below zero")
    if (size > stops - at).any():
        raise CorruptBatch("a key or value is longer than its record")
    return (at, at + size), at + np.maximum(size, 0)


def _gather(data: Octets, starts: Longs, stops: Longs) -> pa.Array:
    """Copy the bytes between starts and stops out of the buffer.

    One array names both the values and the gaps between them, and every second slot is taken.
    """
    null: npt.NDArray[np.bool_] = stops < starts
    edges = np.empty(2 * len(starts), dtype=np.int32)
    edges[0::2], edges[1::2] = starts, np.maximum(starts, stops)
    slots = max(0, len(edges) - 1)
    buffers = [None, pa.py_buffer(edges), pa.py_buffer(data)]
    if slots == 0:
        return pa.nulls(0, pa.binary())
    both = pa.Array.from_buffers(pa.binary(), slots, buffers)
    return both.take(numbers(np.arange(0, slots + 1, 2, dtype=np.int64), pa.int64(), null))
