"""Joined appends: one batch a turn, and everybody's own answer."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from chordmq.broker.appends import Appends
from chordmq.broker.broker import Broker
from chordmq.broker.flusher import Flusher
from chordmq.broker.partition import Partition
from chordmq.broker.settings import BrokerSettings
from chordmq.clock import SystemClock
from chordmq.errors import BatchTooLarge, UnknownTopic
from chordmq.records.batch import walk
from chordmq.records.record import NewRecord, RecordRun, read_records


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    broker = Broker(tmp_path, BrokerSettings(), SystemClock(), Flusher())
    await broker.topics.create("orders", 1, settings={"max.message.bytes": "1000"})
    yield broker
    broker.close()


@pytest.fixture
def partition(broker: Broker) -> Partition:
    return broker.partition("orders", 0)


def records(*values: str) -> list[NewRecord]:
    return [NewRecord(1, None, value.encode()) for value in values]


def batches(partition: Partition) -> list[list[bytes | None]]:
    """Return the values in each batch of the log."""
    found = []
    for buffer in partition.read(0, 1 << 20):
        for position, header in walk(buffer):
            batch = buffer[position : position + header.size]
            found.append([record.value for record in read_records(batch)])
    return found


async def test_what_is_appended_in_one_turn_is_one_batch(partition: Partition) -> None:
    """C14: one write and one flush, however many clients."""
    appends = Appends()
    waiting = [appends.append(partition, records(f"{n}a", f"{n}b")) for n in range(3)]
    assert await asyncio.gather(*waiting) == [0, 2, 4]
    assert batches(partition) == [[b"0a", b"0b", b"1a", b"1b", b"2a", b"2b"]]
    assert (appends.batches, appends.records) == (1, 6)


async def test_runs_of_alike_records_share_the_batch_of_others(partition: Partition) -> None:
    appends = Appends()
    runs = [RecordRun(1, b"k", (), [b"a", b"b"]), RecordRun(2, None, (), [None])]
    waiting = [appends.append(partition, runs), appends.append(partition, records("c"))]
    assert await asyncio.gather(*waiting) == [0, 3]
    assert await appends.append(partition, runs) == 4
    assert batches(partition) == [[b"a", b"b", None, b"c"], [b"a", b"b", None]]
    assert (appends.batches, appends.records) == (2, 7)


async def test_batches_stay_within_the_topics_limit(partition: Partition) -> None:
    appends = Appends()
    waiting = [appends.append(partition, records("x" * 300)) for _ in range(5)]
    assert await asyncio.gather(*waiting) == [0, 1, 2, 3, 4]
    assert [len(batch) for batch in batches(partition)] == [2, 2, 1]


async def test_who_sends_too_much_fails_alone(partition: Partition) -> None:
    appends = Appends()
    results = await asyncio.gather(
        appends.append(partition, records("before")),
        appends.append(partition, records("x" * 2_000)),
        appends.append(partition, records("after")),
        return_exceptions=True,
    )
    assert isinstance(results[1], BatchTooLarge)
    assert (results[0], results[2]) == (0, 1)
    assert [value for batch in batches(partition) for value in batch] == [b"before", b"after"]


async def test_nobody_waits_for_a_topic_that_is_gone(broker: Broker, partition: Partition) -> None:
    appends = Appends()
    await broker.topics.delete("orders")
    with pytest.raises(UnknownTopic):
        await appends.append(partition, records("x"))


async def test_a_client_that_leaves_does_not_disturb_the_others(partition: Partition) -> None:
    appends = Appends()
    gone, there = (appends.append(partition, records(name)) for name in ("gone", "there"))
    gone.cancel()
    assert await there == 1
