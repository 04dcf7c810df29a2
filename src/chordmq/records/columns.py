"""Record batches as columns of Arrow, for programs that read millions of records at once.

Where each record starts is found by a plain loop; everything else is done for all records together
by NumPy, and keys and values are gathered by Arrow without touching single ones. Needs the packages
numpy and pyarrow (`chordmq[spark]` or `chordmq[archive]`).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chordmq.errors import CorruptBatch
from chordmq.records.batch import COMPRESSION_MASK, HEADER_SIZE, TIMESTAMP_APPEND, BatchHeader
from chordmq.records.compression import DECOMPRESSED_BYTES_MAX, decompress
from chordmq.records.record import read_headers

Longs: TypeAlias = npt.NDArray[np.int64]
Octets: TypeAlias = npt.NDArray[np.uint8]

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

VARINT_BYTES_MAX = 10


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns by name, all of the same length."""

    count: int
    arrays: dict[str, pa.Array]


@dataclass(frozen=True, slots=True)
class _Rows:
    """All records of some batches: where they lie in one buffer, and what their batches say."""

    data: Octets
    starts: Longs
    """Where each record begins, after its size."""
    stops: Longs
    batch: Longs
    """The number of each record's batch."""
    headers: list[BatchHeader]


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
    try:
        return _columns(_rows(data, list(batches)), list(names), start, stop)
    except (IndexError, UnicodeDecodeError, pa.ArrowInvalid) as error:
        raise CorruptBatch(f"a record is malformed: {error}") from error


def _columns(rows: _Rows, names: list[str], start: int, stop: int) -> Columns:
    data, headers = rows.data, rows.headers
    time, at = _varints(data, rows.starts + 1)
    delta, at = _varints(data, at)
    bases = np.array([one.base_offset for one in headers], dtype=np.int64)
    offsets = delta + bases[rows.batch]
    kept = slice(*np.searchsorted(offsets, [start, stop]))
    key_start, key_stop, at = _spans(data, at[kept])
    value_start, value_stop, at = _spans(data, at)
    stops = rows.stops[kept]
    if (at > stops).any():
        raise CorruptBatch("a key or value is longer than its record")
    found: dict[str, pa.Array] = {}
    batch = rows.batch[kept]
    for name in names:
        match name:
            case "offset":
                found[name] = _numbers(offsets[kept], pa.int64())
            case "timestamp":
                found[name] = _numbers(_times(headers, batch, time[kept]) * 1000, TIMESTAMP)
            case "timestampType":
                appended = [int(bool(one.attributes & TIMESTAMP_APPEND)) for one in headers]
                found[name] = _numbers(np.array(appended, dtype=np.int32)[batch], pa.int32())
            case "key":
                found[name] = _gather(data, key_start, key_stop)
            case "value":
                found[name] = _gather(data, value_start, value_stop)
            case "headers":
                found[name] = _headers(data, at, stops)
            case _:
                raise KeyError(name)
    return Columns(len(stops), found)


def _rows(data: memoryview, batches: list[tuple[int, BatchHeader]]) -> _Rows:
    """Find every record; what was compressed is put into a buffer of its own."""
    buffer, sections = _sections(data, batches)
    starts: list[int] = []
    stops: list[int] = []
    for (at, end), (_, header) in zip(sections, batches, strict=True):
        _walk(bytes(buffer[at:end]), at, header.record_count, starts, stops)
    counts = [header.record_count for _, header in batches]
    return _Rows(
        np.frombuffer(buffer, dtype=np.uint8),
        np.array(starts, dtype=np.int64),
        np.array(stops, dtype=np.int64),
        np.repeat(np.arange(len(batches), dtype=np.int64), counts),
        [header for _, header in batches],
    )


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


def _walk(body: bytes, shift: int, count: int, starts: list[int], stops: list[int]) -> None:
    """Follow the sizes from record to record: this alone cannot be done for all of them at once."""
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


def _long_size(body: bytes, at: int, byte: int) -> tuple[int, int]:
    size, shift = byte & 0x7F, 7
    while byte > 0x7F:
        byte = body[at]
        at += 1
        size |= (byte & 0x7F) << shift
        shift += 7
    return size, at


def _varints(data: Octets, at: Longs) -> tuple[Longs, Longs]:
    """Read one number at each position; return them and the positions after them."""
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


def _spans(data: Octets, at: Longs) -> tuple[Longs, Longs, Longs]:
    """Read sizes; return where the bytes after them start and stop (before the start: null)."""
    size, at = _varints(data, at)
    if (size < -1).any():
        raise CorruptBatch("a key or value has a size below zero")
    return at, at + size, at + np.maximum(size, 0)


def _times(headers: list[BatchHeader], batch: Longs, delta: Longs) -> Longs:
    base = np.array([one.base_timestamp for one in headers], dtype=np.int64)
    times: Longs = base[batch] + delta
    appended = np.array([bool(one.attributes & TIMESTAMP_APPEND) for one in headers])
    if appended.any():
        latest = np.array([one.max_timestamp for one in headers], dtype=np.int64)
        times = np.where(appended[batch], latest[batch], times)
    return times


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
    counts, at = _varints(data, at)
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
