"""Fetch sessions name what changed, and cost what changed."""

import pytest

from chordmq.broker.broker import Broker
from chordmq.broker.partition import Partition
from chordmq.clock import SystemClock
from chordmq.fronts.kafka.fetch_session import FetchSession, Row
from chordmq.records.record import NewRecord, build_batch

PARTITIONS = 50


@pytest.fixture
async def partitions(broker: Broker) -> list[Partition]:
    topic = await broker.topics.create("t", PARTITIONS, 1, {"flush": "os"})
    return topic.partitions


def write(partition: Partition, size: int = 10) -> None:
    record = NewRecord(SystemClock().now_ms(), None, b"x" * size)
    partition.append(memoryview(build_batch([record])))


def row(session: FetchSession, partition: Partition, offset: int = 0) -> Row:
    return Row(session, "t", b"", partition.index, partition, offset, 1 << 20, -1)


def opened(partitions: list[Partition]) -> FetchSession:
    session = FetchSession(1)
    for partition in partitions:
        session.put(row(session, partition))
    return session


def named(session: FetchSession, *, is_full: bool, max_bytes: int = 1 << 20) -> list[int]:
    found, _, _ = session.collect(max_bytes)
    topics = session.answer(found, is_full)
    return sorted(r.index for topic in topics for r in topic.partitions)


async def test_the_first_answer_names_every_partition_and_the_next_only_news(
    partitions: list[Partition],
) -> None:
    """C6: an incremental fetch of an idle topic is empty."""
    session = opened(partitions)
    assert named(session, is_full=True) == list(range(PARTITIONS))
    assert named(session, is_full=False) == []
    write(partitions[7])
    assert named(session, is_full=False) == [7]


async def test_partitions_without_news_are_not_even_looked_at(
    partitions: list[Partition],
) -> None:
    """C6: the cost of a fetch follows what changed, not what is subscribed."""
    session = opened(partitions)
    named(session, is_full=True)
    write(partitions[3])
    found, _, _ = session.collect(1 << 20)
    assert [row.index for row, _ in found] == [3]


async def test_a_full_answer_stays_within_its_limit(partitions: list[Partition]) -> None:
    """C6: max bytes hold although every partition has records."""
    for partition in partitions:
        write(partition, 1000)
    session = opened(partitions)
    found, total, _ = session.collect(3000)
    topics = session.answer(found, is_full=True)
    rows = [records for topic in topics for records in topic.partitions]
    assert len(rows) == PARTITIONS
    assert sum(len(buffer) for records in rows for buffer in records.buffers) == total < 5000


async def test_no_partition_starves_behind_a_busy_one(partitions: list[Partition]) -> None:
    """C6: who was served stands behind the others the next time."""
    for partition in partitions[:3]:
        write(partition, 1000)
    session = opened(partitions[:3])
    served = [row.index for _ in range(3) for row, _ in session.collect(500)[0]]
    assert sorted(served) == [0, 1, 2]


async def test_a_forgotten_or_closed_row_leaves_nothing_at_its_partition(
    partitions: list[Partition],
) -> None:
    session = opened(partitions)
    named(session, is_full=True)
    session.forget([("t", b"", 5)])
    write(partitions[5])
    assert named(session, is_full=False) == []
    session.close()
    write(partitions[6])
    assert session.collect(1 << 20)[0] == []


async def test_a_deleted_topic_is_reported_to_its_session(
    broker: Broker, partitions: list[Partition]
) -> None:
    session = opened(partitions[:1])
    named(session, is_full=True)
    await broker.topics.delete("t")
    [(_, records)], _, failed = session.collect(1 << 20)
    assert failed
    assert records.error_code
