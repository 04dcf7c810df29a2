"""Where a copied batch was first written, and that its records are those of the source."""

from hypothesis import given
from hypothesis import strategies as st

from chordmq.records.batch import TRANSACTIONAL, read_header, verify
from chordmq.records.compression import Compression
from chordmq.records.origin import (
    OFFSET_BITS,
    cluster_number,
    cluster_of,
    is_copy,
    mark,
    origin_id,
    origin_offset,
)
from chordmq.records.record import NewRecord, build_batch, read_records

RECORDS = [NewRecord(7, b"k", b"a", (("h", b"x"),)), NewRecord(9, None, b"b")]


@given(st.integers(0, (1 << OFFSET_BITS) - 1), st.text(max_size=30), st.text(max_size=30))
def test_a_marked_batch_says_where_it_comes_from(offset: int, cluster: str, topic: str) -> None:
    """D12: origin and offset lie in the batch with the records."""
    origin = origin_id(cluster, topic)
    batch = memoryview(build_batch(RECORDS, compression=Compression.LZ4, flags=TRANSACTIONAL))
    before = read_records(batch)
    mark(batch, read_header(batch).attributes, origin, offset)
    header = read_header(batch)
    verify(batch, 0, header)
    assert is_copy(header)
    assert (header.producer_id, origin_offset(header)) == (origin, offset)
    assert cluster_of(origin) == cluster_number(cluster)
    assert not header.is_transactional
    assert read_records(batch) == before


def test_a_topic_that_is_made_anew_is_another_origin() -> None:
    first, second = origin_id("c", "11111111-2222"), origin_id("c", "11111111-3333")
    assert first != second
    assert cluster_of(first) == cluster_of(second) != cluster_of(origin_id("d", "11111111-2222"))


def test_batches_of_producers_are_no_copies() -> None:
    for producer in (-1, 0, 1 << 40):
        header = read_header(build_batch(RECORDS, producer_id=producer, epoch=0, sequence=0))
        assert not is_copy(header)
