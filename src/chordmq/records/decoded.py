"""Records decoded in one pass by a compiled module; cannot be imported where that is not built."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, ClassVar, Self

import numpy.typing as npt
import pyarrow as pa

from chordmq.dataclass import dataclass
from chordmq.errors import CorruptBatch
from chordmq.records.arrow import TYPES, Columns, headers, numbers
from chordmq.records.one_pass import Bytes, decode
from chordmq.records.positions import Longs, Octets


@dataclass(frozen=True, slots=True)
class Decoded:
    """The columns of some records, all made at once."""

    PORTION_BYTES: ClassVar = 1024 * 1024
    """Small enough that what was copied out is still in the processor's cache when it is sent."""

    count: int
    arrays: Mapping[str, pa.Array]

    @classmethod
    def find(
        cls, data: Octets, batches: Longs, names: Collection[str], start: int, stop: int
    ) -> Self:
        """Decode the records with start <= offset < stop; only the named columns can be had."""
        offsets, times_us, time_kinds, keys, values, places = decode(
            data, batches, names, start, stop
        )
        count = len(offsets)
        plain: dict[str, npt.NDArray[Any]] = {
            "offset": offsets,
            "timestamp": times_us,
            "timestampType": time_kinds,
        }
        arrays = {name: numbers(plain[name], TYPES[name]) for name in plain if name in names}
        for name, buffers in (("key", keys), ("value", values)):
            if buffers is not None:
                arrays[name] = _binary(count, buffers)
        if places is not None:
            try:
                arrays["headers"] = headers(data, places[:, 0], places[:, 1])
            except (IndexError, UnicodeDecodeError) as error:
                raise CorruptBatch(f"a header is malformed: {error}") from error
        return cls(count, arrays)

    def columns(self, names: Iterable[str], begin: int, end: int) -> Columns:
        """Return the columns of some of the records."""
        if begin == 0 and end >= self.count:
            return Columns(self.count, self.arrays)
        arrays = {name: self.arrays[name][begin:end] for name in names}
        return Columns(min(end, self.count) - begin, arrays)


def _binary(count: int, found: Bytes) -> pa.Array:
    valid, edges, data = found
    buffers = [None if valid is None else pa.py_buffer(valid), pa.py_buffer(edges)]
    return pa.Array.from_buffers(pa.binary(), count, [*buffers, pa.py_buffer(data)])
