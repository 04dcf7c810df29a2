"""Finds the W3C trace contexts that the records of a batch carry."""

from collections.abc import Iterable

from chordmq.records.batch import COMPRESSION_MASK, read_header
from chordmq.records.record import Headers, read_records

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
    found = _distinct(parent_of(record.headers) for record in read_records(data))
    return found[:PARENTS_MAX]


def _distinct(parents: Iterable[str | None]) -> list[str]:
    return list(dict.fromkeys(filter(None, parents)))
