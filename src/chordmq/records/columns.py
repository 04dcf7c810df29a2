"""Record batches as columns of Arrow, for programs that read millions of records at once.

Everything is done for all records together by NumPy, and keys and values are gathered by Arrow
without touching single ones. Needs the packages numpy and pyarrow (`chordmq[spark]` or
`chordmq[archive]`).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chordmq.errors import CorruptBatch
from chordmq.records.batch import COMPRESSION_MASK, HEADER_SIZE, TIMESTAMP_APPEND, BatchHeader
from chordmq.records.compression import DECOMPRESSED_BYTES_MAX, decompress
from chordmq.records.positions import (
    Longs,
    Octets,
    find_records,
    read_long_varints,
    read_varints,
)
from chordmq.records.record import read_headers

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TIMESTAMP = pa.timestamp("us", tz="UTC")
TYPES: dict[str, pa.DataType] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "offset": pa.int64(),
    "timestamp": TIMESTAMP,
    "timestampType": pa.int32(),
    "headers": HEADERS,
}
"""The columns that batches can be turned into, by the names that Spark's Kafka connector uses."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns by name, all of the same length."""

    count: int
    arrays: dict[str, pa.Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Records of some batches: where their parts lie in one buffer, out of which nothing is copied.

    A key or value that stops before it starts is null.
    """

    data: Octets
    offsets: Longs
    times: Longs
    """In milliseconds."""
    appended: npt.NDArray[np.int32]
    """1 for a record with the time of its append."""
    keys: tuple[Longs, Longs]
    values: tuple[Longs, Longs]
    headers: tuple[Longs, Longs]

    @property
    def count(self) -> int:
        """Return how many records there are."""
        return len(self.offsets)

    def columns(self, names: Iterable[str], begin: int = 0, end: int | None = None) -> Columns:
        """Return the columns of some of the records, all if it is not said which."""
        rows = slice(begin, end)
        try:
            arrays = {name: self._column(name, rows) for name in names}
        except (IndexError, UnicodeDecodeError, pa.ArrowInvalid) as error:
            raise CorruptBatch(f"a record is malformed: {error}") from error
        return Columns(len(self.offsets[rows]), arrays)

    def _column(self, name: str, rows: slice) -> pa.Array:
        match name:
            case "offset":
                return _numbers(self.offsets[rows], pa.int64())
            case "timestamp":
                return _numbers(self.times[rows] * 1000, TIMESTAMP)
            case "timestampType":
                return _numbers(self.appended[rows], pa.int32())
            case "key":
                return _gather(self.data, *(edge[rows] for edge in self.keys))
            case "value":
                return _gather(self.data, *(edge[rows] for edge in self.values))
            case "headers":
                return _headers(self.data, *(edge[rows] for edge in self.headers))
        raise KeyError(name)


def read_columns(
    data: memoryview,
    batches: Iterable[tuple[int, BatchHeader]],
    names: Iterable[str],
    *,
    start: int = 0,
    stop: int = 2**63 - 1,
) -> Columns:
    """Return the columns of the records with start <= offset < stop, in the batches at positions.

    The checksums are not looked at; a record that does not fit its batch raises CorruptBatch.
    """
    return find(data, batches, start=start, stop=stop).columns(names)


def find(
    data: memoryview,
    batches: Iterable[tuple[int, BatchHeader]],
    *,
    start: int = 0,
    stop: int = 2**63 - 1,
) -> Found:
    """Find the records with start <= offset < stop, as `read_columns` does."""
    try:
        return _found(data, list(batches), start, stop)
    except IndexError as error:
        raise CorruptBatch(f"a record is malformed: {error}") from error


def _found(
    data: memoryview, batches: list[tuple[int, BatchHeader]], start: int, stop: int
) -> Found:
    buffer, sections = _sections(data, batches)
    octets = np.frombuffer(buffer, dtype=np.uint8)
    headers = [header for _, header in batches]
    counts = [header.record_count for header in headers]
    starts, stops = find_records(octets, sections, counts)
    (time, delta, key_size), at = read_varints(octets, starts + 1, 3)
    offsets = delta + np.repeat(_each(headers, "base_offset"), counts)
    kept = slice(*np.searchsorted(offsets, [start, stop]))
    key, at = _span(at[kept], key_size[kept])
    (value_size,), at = read_varints(octets, at, 1)
    value, at = _span(at, value_size)
    if (at > stops[kept]).any():
        raise CorruptBatch("a key or value is longer than its record")
    appended = (_each(headers, "attributes") & TIMESTAMP_APPEND).astype(bool)
    times = time + np.repeat(_each(headers, "base_timestamp"), counts)
    if appended.any():
        latest = np.repeat(_each(headers, "max_timestamp"), counts)
        times = np.where(np.repeat(appended, counts), latest, times)
    return Found(
        data=octets,
        offsets=offsets[kept],
        times=times[kept],
        appended=np.repeat(appended.astype(np.int32), counts)[kept],
        keys=key,
        values=value,
        headers=(at, stops[kept]),
    )


def _each(headers: list[BatchHeader], field: str) -> Longs:
    return np.array([getattr(one, field) for one in headers], dtype=np.int64)


def _sections(
    data: memoryview, batches: list[tuple[int, BatchHeader]]
) -> tuple[memoryview, list[tuple[int, int]]]:
    """Return one buffer, and where in it each batch's records lie."""
    bodies = [(position + HEADER_SIZE, position + header.size) for position, header in batches]
    if not any(header.attributes & COMPRESSION_MASK for _, header in batches):
        return data, bodies
    joined = bytearray()
    sections = []
    for (at, end), (_, header) in zip(bodies, batches, strict=True):
        kind = header.attributes & COMPRESSION_MASK
        body = decompress(kind, data[at:end], DECOMPRESSED_BYTES_MAX)
        sections.append((len(joined), len(joined) + len(body)))
        joined += body
    return memoryview(joined), sections


def _span(at: Longs, size: Longs) -> tuple[tuple[Longs, Longs], Longs]:
    """Return where bytes of a size start and stop, and what follows them."""
    if (size < -1).any():
        raise CorruptBatch("a key or value has a size below zero")
    return (at, at + size), at + np.maximum(size, 0)


def _numbers(
    numbers: npt.NDArray[Any], kind: pa.DataType, null: npt.NDArray[np.bool_] | None = None
) -> pa.Array:
    """Wrap numbers as they lie in memory; pyarrow's own way would import pandas for it."""
    valid = None
    if null is not None and null.any():
        valid = pa.py_buffer(np.packbits(~null, bitorder="little"))
    buffers = [valid, pa.py_buffer(np.ascontiguousarray(numbers))]
    return pa.Array.from_buffers(kind, len(numbers), buffers)


def _gather(data: Octets, starts: Longs, stops: Longs) -> pa.Array:
    """Copy the bytes between starts and stops out of the buffer.

    One array names both the values and the gaps between them, and every second slot is taken.
    """
    null = stops < starts
    edges = np.empty(2 * len(starts), dtype=np.int32)
    edges[0::2], edges[1::2] = starts, np.maximum(starts, stops)
    slots = max(0, len(edges) - 1)
    buffers = [None, pa.py_buffer(edges), pa.py_buffer(data)]
    if slots == 0:
        return pa.nulls(0, pa.binary())
    both = pa.Array.from_buffers(pa.binary(), slots, buffers)
    return both.take(_numbers(np.arange(0, slots + 1, 2, dtype=np.int64), pa.int64(), null))


def _headers(data: Octets, at: Longs, stops: Longs) -> pa.Array:
    counts, at = read_long_varints(data, at)
    if not counts.any():
        edges = _numbers(np.zeros(len(counts) + 1, dtype=np.int32), pa.int32())
        return pa.ListArray.from_arrays(edges, pa.nulls(0, HEADERS.value_type))
    raw = data.tobytes()
    lists = []
    for begin, count, stop in zip(at.tolist(), counts.tolist(), stops.tolist(), strict=True):
        pairs, end = read_headers(raw, begin, count)
        if end != stop:
            raise CorruptBatch("a record's size does not match its fields")
        lists.append([{"key": name, "value": value} for name, value in pairs])
    return pa.array(lists, HEADERS)
