"""Records of other nodes that are kept a while: whole batches, found by offset, up to a bound."""

import pytest

from chordmq.broker.chunks import OVERHEAD, Chunk, Chunks
from chordmq.records.batch import place, read_header, walk
from chordmq.records.record import NewRecord, build_batch

ONE, TWO = object(), object()


def batches(start: int, *sizes: int) -> memoryview:
    """Return batches of so many records each, from an offset on."""
    data = bytearray()
    for size in sizes:
        batch = memoryview(build_batch([NewRecord(0, None, b"x" * 10)] * size))
        place(batch, 0, start, 0)
        data += batch
        start += size
    return memoryview(data)


def spans(data: memoryview) -> list[tuple[int, int]]:
    return [(header.base_offset, header.next_offset) for _, header in walk(data)]


@pytest.mark.parametrize(
    ("offset", "count", "found"),
    [
        (5, 1, [(5, 7)]),
        (6, 1, [(5, 7)]),
        (7, 1, [(7, 8)]),
        (5, 2, [(5, 7), (7, 8)]),
        (7, 9, [(7, 8), (8, 11)]),
        (10, 9, [(8, 11)]),
    ],
)
def test_whole_batches_are_read_from_an_offset_on(
    offset: int, count: int, found: list[tuple[int, int]]
) -> None:
    data = batches(5, 2, 1, 3)
    chunk = Chunk(5, data)
    size = sum(read_header(batches(first, end - first)).size for first, end in found[:count])
    got, following = chunk.read(offset, size)
    assert spans(got) == found[:count]
    assert following == found[:count][-1][1]
    assert spans(chunk.read(offset, 1)[0]) == found[:1], "one batch at least"


def test_a_chunk_begins_where_it_was_asked_for_even_if_compaction_left_a_gap() -> None:
    chunks = Chunks()
    chunks.add(ONE, Chunk(3, batches(5, 2)))
    found = chunks.find(ONE, 3)
    assert found is not None
    assert spans(found.read(3, 1000)[0]) == [(5, 7)]
    assert chunks.find(ONE, 2) is None
    assert chunks.find(ONE, 7) is None
    assert chunks.find(TWO, 5) is None


def test_what_was_not_read_for_longest_goes_first() -> None:
    first, second, third = (Chunk(start, batches(start, 2)) for start in (0, 2, 4))
    chunks = Chunks(first.size + second.size)
    chunks.add(ONE, first)
    chunks.add(TWO, second)
    assert chunks.find(ONE, 0) is first
    chunks.add(ONE, third)
    assert chunks.find(TWO, 2) is None
    assert (chunks.find(ONE, 0), chunks.find(ONE, 4)) == (first, third)
    assert chunks.size == first.size + third.size


def test_a_chunk_larger_than_the_bound_is_kept_until_the_next_one() -> None:
    chunks = Chunks(OVERHEAD)
    large = Chunk(0, batches(0, 100))
    chunks.add(ONE, large)
    assert chunks.find(ONE, 50) is large
    chunks.add(ONE, Chunk(100, batches(100, 1)))
    assert chunks.find(ONE, 50) is None


def test_all_of_a_partition_is_let_go_of_at_once() -> None:
    chunks = Chunks()
    chunks.add(ONE, Chunk(0, batches(0, 1)))
    chunks.add(TWO, Chunk(0, batches(0, 1)))
    chunks.forget(ONE)
    assert chunks.find(ONE, 0) is None
    assert chunks.find(TWO, 0) is not None
    chunks.forget(TWO)
    assert chunks.size == 0
