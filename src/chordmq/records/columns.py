"""Record batches as columns of Arrow, for programs that read millions of records at once.

Needs the packages numpy and pyarrow (`chordmq[spark]` or `chordmq[archive]`). A compiled module
does the work if it was built when the package was installed, NumPy does it otherwise.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from chordmq.records.arrow import Columns
from chordmq.records.batch import COMPRESSION_MASK, HEADER_SIZE, TIMESTAMP_APPEND, BatchHeader
from chordmq.records.compression import DECOMPRESSED_BYTES_MAX, decompress
from chordmq.records.found import Found
from chordmq.records.positions import Longs

if TYPE_CHECKING:
    from chordmq.records.decoded import Decoded

Decoder: TypeAlias = "type[Found] | type[Decoded]"


def _chosen() -> Decoder:
    try:
        from chordmq.records.decoded import Decoded
    except ImportError:
        return Found
    return Decoded


DECODER = _chosen()

ROWS_MAX = 8192
"""Small enough that columns are still in the processor's cache when they are sent, and when Spark
turns them into rows; large enough that what each time costs does not count."""

Section = tuple[int, int, BatchHeader]
"""Where the records of a batch lie in a buffer, and what its header says."""


def read_columns(
    data: memoryview,
    batches: Iterable[tuple[int, BatchHeader]],
    names: Collection[str],
    *,
    start: int = 0,
    stop: int = 2**63 - 1,
    decoder: Decoder = DECODER,
) -> Iterator[Columns]:
    """Yield the columns of the records with start <= offset < stop, in the batches at positions.

    The checksums are not looked at; a record that does not fit its batch raises CorruptBatch.
    """
    for buffer, sections in _portions(data, list(batches), decoder.PORTION_BYTES):
        octets = np.frombuffer(buffer, dtype=np.uint8)
        found = decoder.find(octets, _table(sections), names, start, stop)
        for begin in range(0, found.count, ROWS_MAX):
            yield found.columns(names, begin, begin + ROWS_MAX)


def _portions(
    data: memoryview, batches: list[tuple[int, BatchHeader]], bytes_max: int
) -> Iterator[tuple[memoryview, list[Section]]]:
    """Yield a few batches at a time, with the one buffer where all their records lie."""
    is_packed = any(header.attributes & COMPRESSION_MASK for _, header in batches)
    joined, sections, size = bytearray(), list[Section](), 0
    for position, header in batches:
        begin, end = position + HEADER_SIZE, position + header.size
        if is_packed:
            kind = header.attributes & COMPRESSION_MASK
            body = decompress(kind, data[begin:end], DECOMPRESSED_BYTES_MAX)
            begin, end = len(joined), len(joined) + len(body)
            joined += body
        sections.append((begin, end, header))
        size += end - begin
        if size >= bytes_max:
            yield memoryview(joined) if is_packed else data, sections
            joined, sections, size = bytearray(), [], 0
    if sections:
        yield memoryview(joined) if is_packed else data, sections


def _table(sections: list[Section]) -> Longs:
    """Return begin, end, count, offset, time, and whether that is of the append, of each batch."""
    rows = []
    for begin, end, header in sections:
        is_append_time = bool(header.attributes & TIMESTAMP_APPEND)
        time = header.max_timestamp if is_append_time else header.base_timestamp
        rows.append((begin, end, header.record_count, header.base_offset, time, is_append_time))
    return np.array(rows, dtype=np.int64)
