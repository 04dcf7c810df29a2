"""The columns that records can be turned into, and Arrow arrays over memory that is filled."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chordmq.dataclass import dataclass
from chordmq.errors import CorruptBatch
from chordmq.records.positions import Longs, Octets, read_long_varints
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
    arrays: Mapping[str, pa.Array]


def numbers(
    values: npt.NDArray[Any], kind: pa.DataType, null: npt.NDArray[np.bool_] | None = None
) -> pa.Array:
    """Wrap numbers as they lie in memory; pyarrow's own way would import pandas for it."""
    valid = None
    if null is not None and null.any():
        valid = pa.py_buffer(np.packbits(~null, bitorder="little"))
    buffers = [valid, pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(kind, len(values), buffers)


def headers(data: Octets, at: Longs, stops: Longs) -> pa.Array:
    """Return the headers that lie between each start and stop."""
    counts, at = read_long_varints(data, at)
    if not counts.any():
        if (at != stops).any():
            raise CorruptBatch("a record's size does not match its fields")
        edges = numbers(np.zeros(len(counts) + 1, dtype=np.int32), pa.int32())
        return pa.ListArray.from_arrays(edges, pa.nulls(0, HEADERS.value_type))
    raw = data.tobytes()
    lists = []
    for begin, count, stop in zip(at.tolist(), counts.tolist(), stops.tolist(), strict=True):
        pairs, end = read_headers(raw, begin, count)
        if end != stop:
            raise CorruptBatch("a record's size does not match its fields")
        lists.append([{"key": name, "value": value} for name, value in pairs])
    return pa.array(lists, HEADERS)
