"""Finds the W3C trace contexts that the records of a batch carry."""

from collections.abc import Iterable, Sequence

from chordmq.records.batch import COMPRESSION_MASK, read_header, walk
from chordmq.records.record import Headers, Record, read_records

TRACEPARENT = "traceparent"
PARENTS_MAX = 32
"""Traces of one batch that get a span each; a batch of thousands would flood the collector."""


def parent_of(headers: Headers) -> str | None:
    """Return the trace context among a record's headers, as it is written."""
    for name, value in headers:
        if name == TRACEPARENT and value is not None:
            return value.decode("ascii", "replace")
    return None


def parents_in(data: memoryview) -> list[str]:
    """Return the different trace contexts of a batch's records, the first ones if there are many.

    Records that lie there uncompressed are read only if the name of the header stands among them.
    """
    header = read_header(data)
    if not header.attributes & COMPRESSION_MASK and TRACEPARENT.encode() not in bytes(data):
        return []
    return parents_of(read_records(data))


def parents_in_all(buffers: Iterable[memoryview]) -> list[str]:
    """Return the different trace contexts of many batches, as `parents_in` does of one."""
    return _distinct(
        parent
        for buffer in buffers
        for position, header in walk(buffer)
        for parent in parents_in(buffer[position : position + header.size])
    )[:PARENTS_MAX]


def parents_of(records: Sequence[Record]) -> list[str]:
    """Return the different trace contexts of records, the first ones if there are many."""
    return _distinct(parent_of(record.headers) for record in records)[:PARENTS_MAX]


def _distinct(parents: Iterable[str | None]) -> list[str]:
    return list(dict.fromkeys(filter(None, parents)))
