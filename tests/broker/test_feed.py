"""Following partitions: order, gaps, transactions, and positions as text."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from chordmq.broker.broker import Broker
from chordmq.broker.feed import Feed, Gap, read_position, write_position
from chordmq.broker.flusher import Flusher
from chordmq.broker.producers import Incarnation
from chordmq.broker.settings import BrokerSettings
from chordmq.clock import SystemClock
from chordmq.errors import InvalidRequest, OffsetOutOfRange, UnknownTopic
from chordmq.records.marker import Marker
from chordmq.records.record import NewRecord

MANY = (1_000, 1 << 20)


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    broker = Broker(tmp_path, BrokerSettings(), SystemClock(), Flusher())
    await broker.topics.create("orders", 2)
    yield broker
    broker.close()


def feed_of(broker: Broker, offsets: dict[int, int] | None = None) -> Feed:
    partitions = dict(enumerate(broker.topics.get("orders").partitions))
    return Feed(partitions, offsets or {})


async def append(broker: Broker, partition: int, *values: str, time_ms: int = 1) -> None:
    records = [NewRecord(time_ms, None, value.encode()) for value in values]
    await broker.append_records("orders", partition, records)


def values(feed: Feed, count_max: int = 1_000, bytes_max: int = 1 << 20) -> list[str]:
    return [(one.record.value or b"").decode() for one in feed.take(count_max, bytes_max)]


async def test_a_feed_gives_each_record_once_and_in_order(broker: Broker) -> None:
    await append(broker, 0, "a", "b", "c")
    await append(broker, 1, "x")
    feed = feed_of(broker)
    seen = []
    while taken := feed.take(1, 1 << 20):
        seen += taken
    assert [(one.partition, one.record.offset) for one in seen if not one.partition] == [
        (0, 0),
        (0, 1),
        (0, 2),
    ]
    assert len(seen) == 4
    assert feed.offsets == {0: 3, 1: 1}


async def test_a_busy_partition_does_not_starve_the_other(broker: Broker) -> None:
    for number in range(20):
        await append(broker, 0, str(number))
        await append(broker, 1, str(number))
    feed = feed_of(broker)
    partitions = {feed.take(1, 1 << 20)[0].partition for _ in range(4)}
    assert partitions == {0, 1}


async def test_a_feed_begins_inside_a_batch(broker: Broker) -> None:
    await append(broker, 0, "a", "b", "c")
    assert values(feed_of(broker, {0: 2})) == ["c"]


async def test_a_gap_loses_nothing_of_the_other_partitions(broker: Broker) -> None:
    await append(broker, 0, "a")
    await append(broker, 1, "x", "y", "z")
    await broker.partition("orders", 1).delete_records(2)
    feed = feed_of(broker)
    for _ in range(2):
        with pytest.raises(OffsetOutOfRange):
            feed.take(*MANY)
    assert feed.skip_gaps() == [Gap(1, 0, 2)]
    assert sorted(values(feed)) == ["a", "z"]


async def test_a_position_after_the_end_is_a_gap_too(broker: Broker) -> None:
    """A log that lost its end in a crash is read on from what it has."""
    feed = feed_of(broker, {0: 7})
    assert feed.skip_gaps() == [Gap(0, 7, 0)]


async def test_aborted_records_and_markers_are_passed_over(broker: Broker) -> None:
    producer = Incarnation(5, 0)
    records = [NewRecord(1, None, b"aborted")]
    await broker.append_records("orders", 0, records, producer=producer)
    await append(broker, 0, "plain")
    feed = feed_of(broker)
    assert values(feed) == []
    await broker.append_marker("orders", 0, Marker(*producer, False))
    assert values(feed) == ["plain"]
    assert feed.offsets[0] == 3


async def test_a_feed_is_woken_once_there_is_more_and_only_then(broker: Broker) -> None:
    feed = feed_of(broker)
    assert not await feed.more(0.01)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        waiting = group.create_task(feed.more(60))
        await asyncio.sleep(0)
        await append(broker, 1, "x")
    assert waiting.result()
    assert values(feed) == ["x"]
    feed.close()
    assert not broker.partition("orders", 0)._readers


async def test_who_finds_only_what_is_not_shown_is_woken_for_what_lies_behind_it(
    broker: Broker,
) -> None:
    """D4: nobody waits for a record that is there, however much of aborted transactions precedes.

    One read gives whole batches up to a size, and all of them may be aborted.
    """
    producer = Incarnation(5, 0)
    await broker.append_records("orders", 0, [NewRecord(1, None, b"x" * 2000)], producer=producer)
    await broker.append_marker("orders", 0, Marker(*producer, False))
    await append(broker, 0, "behind")
    feed = feed_of(broker)
    assert values(feed, bytes_max=100) == []
    assert await feed.more(60)
    assert values(feed) == ["behind"]
    assert not await feed.more(0.01)


async def test_who_waits_for_a_deleted_topic_is_told(broker: Broker) -> None:
    feed = feed_of(broker)
    await broker.topics.delete("orders")
    with pytest.raises(UnknownTopic):
        await feed.more(60)


def test_a_position_is_read_as_it_was_written() -> None:
    offsets = {0: 15, 12: 7, 3: 0}
    assert write_position(offsets) == "0:15,3:0,12:7"
    assert read_position(write_position(offsets)) == offsets


@pytest.mark.parametrize(
    "text", ["", "0", "0:", ":1", "0:1,", "0:-1", "a:1", "0:1:2", f"0:{10**30}"]
)
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        read_position(text)
