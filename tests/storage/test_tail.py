"""The memory tail: bounded over the node, oldest first, and what it gives to readers."""

import tracemalloc

from chordmq.clock import ManualClock
from chordmq.records.batch import place
from chordmq.storage.tail import CHUNK_OVERHEAD, NOTHING, UNREAD_MAX, Tail, TailBudget
from tests.storage.logs import batch, headers_of


def chunk(offset: int, *counts: int, size: int = 50) -> memoryview:
    """Return batches with so many records each, the first at `offset`."""
    data = bytearray()
    for count in counts:
        one = batch(*[b"x" * size] * count)
        place(memoryview(one), 0, offset, 0)
        offset += count
        data += one
    return memoryview(data)


def add(
    tail: Tail, base_offset: int, next_offset: int, *pieces: memoryview, is_lent: bool = False
) -> None:
    tail.add(base_offset, next_offset, pieces, is_lent=is_lent)


def offsets(views: list[memoryview]) -> list[int]:
    return [header.base_offset for header in headers_of(views)]


def test_readers_get_whole_batches_from_the_one_they_ask_for() -> None:
    tail = Tail(TailBudget(10_000, ManualClock()))
    add(tail, 10, 16, chunk(10, 2, 2, 2))
    add(tail, 16, 18, chunk(16, 2))
    assert tail.start == 10
    assert offsets(tail.read(10, 10_000, 18)) == [10, 12, 14, 16]
    assert offsets(tail.read(13, 10_000, 18)) == [12, 14, 16]
    assert offsets(tail.read(15, 10_000, 18)) == [14, 16]
    assert offsets(tail.read(11, 1, 18)) == [10]
    assert offsets(tail.read(10, 10_000, 14)) == [10, 12]
    assert offsets(tail.read(10, 10_000, 13)) == [10, 12]
    assert tail.read(10, 1, 18, at_least_one=False) == []


def test_the_oldest_chunk_of_the_node_goes_first() -> None:
    """A6: memory is bounded over all partitions."""
    one = chunk(0, 1)
    budget = TailBudget(3 * (len(one) + CHUNK_OVERHEAD), ManualClock())
    first, second = Tail(budget), Tail(budget)
    for number in range(3):
        add(first, number, number + 1, chunk(number, 1))
    add(second, 0, 1, chunk(0, 1))
    assert (first.start, second.start) == (1, 0)
    assert budget.bytes_used == budget.bytes_max


def test_a_chunk_larger_than_the_budget_leaves_its_tail_empty() -> None:
    """A tail has no holes: without its newest batch it can not have the older ones."""
    budget = TailBudget(4000, ManualClock())
    tail, other = Tail(budget), Tail(budget)
    add(other, 0, 1, chunk(0, 1))
    add(tail, 0, 1, chunk(0, 1))
    add(tail, 1, 2, chunk(1, 1, size=5000))
    assert (tail.start, other.start) == (NOTHING, 0)


def test_a_log_that_nobody_follows_keeps_nothing() -> None:
    """A6: the newest records are in memory as long as somebody reads them."""
    tail = Tail(TailBudget(100 * UNREAD_MAX, ManualClock()))

    def write(first: int, end: int) -> None:
        for offset in range(first, end):
            add(tail, offset, offset + 1, chunk(offset, 1, size=UNREAD_MAX // 4))

    write(0, 3)
    assert tail.start == 0
    write(3, 20)
    assert tail.start == NOTHING
    tail.followed()
    write(20, 23)
    assert tail.start == 20
    assert offsets(tail.read(20, 1, 23)) == [20]
    write(23, 26)
    assert tail.start == 20
    write(26, 27)
    assert tail.start == NOTHING


def test_what_is_lent_is_kept_as_it_was() -> None:
    tail = Tail(TailBudget(10_000, ManualClock()))
    first, second = chunk(0, 2), chunk(2, 1)
    add(tail, 0, 3, first, second, is_lent=True)
    one = chunk(3, 1)
    add(tail, 3, 4, one, is_lent=True)
    for data in (first, second, one):
        data[:] = bytes(len(data))
    assert offsets(tail.read(0, 10_000, 4)) == [0, 2, 3]


def test_old_chunks_go_by_age() -> None:
    """A6: past the memory retention records are dropped from memory."""
    clock = ManualClock()
    tail = Tail(TailBudget(10_000, clock))
    add(tail, 0, 1, chunk(0, 1))
    clock.advance(600)
    add(tail, 1, 2, chunk(1, 1))
    clock.advance(600)
    tail.expire(1000)
    assert tail.start == 1
    tail.expire(100)
    assert tail.start == NOTHING


def test_dropped_chunks_leave_nothing_behind() -> None:
    clock = ManualClock()
    budget = TailBudget(1_000_000, clock)
    busy, quiet = Tail(budget), Tail(budget)
    add(quiet, 0, 1, chunk(0, 1))
    for number in range(10_000):
        add(busy, number, number + 1, chunk(number, 1))
        clock.advance(10)
        busy.expire(100)
    assert len(budget._queue) < 3000
    assert budget.bytes_used < 12 * (CHUNK_OVERHEAD + 200)
    assert len(busy._chunks) < 200
    assert quiet.start == 0


def test_a_small_piece_of_a_large_buffer_does_not_keep_it_alive() -> None:
    tail = Tail(TailBudget(10_000_000, ManualClock()))

    def add_part(number: int) -> None:
        one = chunk(number, 1)
        buffer = bytearray(1_000_000)
        buffer[: len(one)] = one
        add(tail, number, number + 1, memoryview(buffer)[: len(one)])

    tracemalloc.start()
    for number in range(20):
        add_part(number)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used < 1_000_000
    assert offsets(tail.read(0, 10_000, 20)) == list(range(20))


def test_very_many_small_pieces_are_given_as_one() -> None:
    tail = Tail(TailBudget(1_000_000, ManualClock()))
    for number in range(500):
        add(tail, number, number + 1, chunk(number, 1))
    views = tail.read(3, 1_000_000, 500)
    assert len(views) == 1
    assert offsets(views) == list(range(3, 500))
