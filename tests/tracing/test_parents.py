"""Trace contexts are found in batches, compressed or not."""

import pytest

from chordmq.records.compression import Compression
from chordmq.records.record import NewRecord, build_batch
from chordmq.tracing.parents import PARENTS_MAX, parent_of, parents_in


def batch(*parents: str | None, compression: Compression = Compression.NONE) -> memoryview:
    records = [
        NewRecord(0, None, b"x", (("traceparent", one.encode()),) if one else ()) for one in parents
    ]
    return memoryview(build_batch(records, compression=compression))


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP, Compression.ZSTD])
def test_each_trace_of_a_batch_is_found_once(compression: Compression) -> None:
    assert parents_in(batch("a", None, "b", "a", compression=compression)) == ["a", "b"]
    assert parents_in(batch(None, None, compression=compression)) == []


def test_a_batch_of_many_traces_tells_the_first() -> None:
    many = [f"trace-{number}" for number in range(2 * PARENTS_MAX)]
    assert parents_in(batch(*many)) == many[:PARENTS_MAX]


def test_a_header_without_a_value_is_no_trace() -> None:
    assert parent_of((("traceparent", None), ("other", b"x"))) is None
