"""What a partition has of other clusters: known after restarts and compaction, and found again."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chordmq.broker.broker import Broker
from chordmq.broker.flusher import Flusher
from chordmq.broker.origins import Origins, known_at, place_after
from chordmq.broker.partition import Partition
from chordmq.broker.settings import BrokerSettings
from chordmq.clock import SystemClock
from chordmq.errors import InvalidRecord
from chordmq.records.batch import read_header
from chordmq.records.origin import mark, origin_id
from chordmq.records.record import NewRecord, build_batch

OWN, A, B = (origin_id(name, "t") for name in ("own", "a", "b"))


@pytest.fixture
async def partition(tmp_path: Path) -> AsyncIterator[Partition]:
    broker = Broker(tmp_path / "data", BrokerSettings(), SystemClock(), Flusher())
    await broker.topics.create("orders", 1, settings={"flush": "os"})
    yield broker.partition("orders", 0)
    broker.close()


def write(partition: Partition, origin: int, first: int, count: int, size: int = 1) -> None:
    batch = memoryview(build_batch([NewRecord(1, None, bytes(size))] * count))
    if origin != OWN:
        mark(batch, read_header(batch).attributes, origin, first)
    partition.append(batch, is_copy=origin != OWN)


async def test_a_partition_knows_what_it_has_of_each_origin(partition: Partition) -> None:
    """D12: and from where on there is something new for another."""
    write(partition, A, 10, 5)  # 0 to 4
    write(partition, OWN, 0, 2)  # 5 and 6
    write(partition, B, 7, 3)  # 7 to 9
    write(partition, A, 15, 5)  # 10 to 14
    assert known_at(partition, OWN, 15) == {OWN: 15, A: 20, B: 10}
    assert known_at(partition, OWN, 8) == {OWN: 8, A: 15, B: 8}
    assert known_at(partition, OWN, 2) == {OWN: 2, A: 12, B: 7}
    assert place_after(partition, OWN, {OWN: 15, A: 20, B: 10}) == 15
    assert place_after(partition, OWN, {OWN: 7, A: 15, B: 10}) == 10
    assert place_after(partition, OWN, {OWN: 7, A: 20}) <= 7
    assert place_after(partition, OWN, {}) == 0


async def test_a_state_survives_its_snapshot(partition: Partition) -> None:
    write(partition, A, 10, 5)
    write(partition, OWN, 0, 2)
    origins, copy = partition.producers.origins, Origins()
    copy.restore(b"before" + origins.snapshot(), 6)
    assert copy == origins


async def test_clients_cannot_pretend_to_be_another_cluster(partition: Partition) -> None:
    """D12: only pipes write copies."""
    batch = memoryview(build_batch([NewRecord(1, None, b"x")]))
    mark(batch, 0, A, 5)
    with pytest.raises(InvalidRecord):
        partition.append(batch)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([OWN, A, B]), st.integers(1, 4)), max_size=40),
    st.integers(0, 100),
)
async def test_nothing_new_lies_before_the_place_that_is_found(
    tmp_path_factory: pytest.TempPathFactory, batches: list[tuple[int, int]], offset: int
) -> None:
    """D12: a node that goes on with another parent misses nothing, and one alike begins there."""
    broker = Broker(tmp_path_factory.mktemp("d"), BrokerSettings(), SystemClock(), Flusher())
    await broker.topics.create("orders", 1, settings={"flush": "os"})
    partition = broker.partition("orders", 0)
    ends = {A: 0, B: 0}
    for origin, count in batches:
        # Batches that do not fit into one read of the search, so that it has to go on.
        write(partition, origin, ends.get(origin, 0), count, 90_000)
        if origin != OWN:
            ends[origin] += count
    offset = min(offset, partition.log.end_offset)
    known = known_at(partition, OWN, offset)
    place = place_after(partition, OWN, known)
    assert place <= offset
    here = known_at(partition, OWN, place)
    assert all(known[one] >= following for one, following in here.items())
    if {origin for origin, _ in batches} <= {A}:
        assert place == offset
    broker.close()
