"""What only the disk has is brought into memory by a thread, and who waits is told."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from chordmq.broker import read_ahead
from chordmq.broker.broker import Broker
from chordmq.broker.cursors.cursor import Cursor
from chordmq.broker.cursors.cursors import EARLIEST
from chordmq.broker.feed import Feed
from chordmq.broker.partition import Partition
from chordmq.broker.read_ahead import BROUGHT_MAX
from chordmq.broker.settings import BrokerSettings
from chordmq.clock import SystemClock
from chordmq.errors import StorageFailed
from chordmq.records.record import NewRecord
from chordmq.storage.reader import Reader
from tests.broker.running_broker import Waiter, running
from tests.cold_disk import Disk

SIZE = 1 << 20
NOTHING_IN_MEMORY = BrokerSettings(log_memory_max_bytes=0)


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    async with running(tmp_path, SystemClock(), NOTHING_IN_MEMORY) as broker:
        await broker.topics.create("t", 2)
        yield broker


@pytest.fixture
def partition(broker: Broker) -> Partition:
    return broker.partition("t", 0)


async def append(broker: Broker, *values: bytes, partition: int = 0) -> None:
    for value in values:
        await broker.append_records("t", partition, [NewRecord(1, None, value)])


def feed_of(broker: Broker, *, is_patient: bool = True) -> Feed:
    partitions = dict(enumerate(broker.topics.get("t").partitions))
    return Feed(partitions, {}, is_patient=is_patient)


def values(feed: Feed) -> list[bytes | None]:
    return [one.record.value for one in feed.take(100, SIZE)]


async def brought(broker: Broker) -> None:
    """Wait until nobody waits for the disk any more."""
    async with asyncio.timeout(30):
        while broker.shared.read_ahead._under_way:  # noqa: ASYNC110 - nobody says when
            await asyncio.sleep(0)


async def test_a_patient_reader_gets_what_the_disk_has_when_memory_has_it(
    broker: Broker, disk: Disk
) -> None:
    """D2, A6: until then there is nothing for it, and it is not woken in vain."""
    await append(broker, b"a", b"b")
    feed, waiter = feed_of(broker), Waiter()
    assert values(feed) == []
    assert feed.awaits_disk
    assert feed.is_at_end
    feed.wait(waiter)
    assert not waiter.woken.is_set()
    disk.may_go_on.set()
    await waiter.woken.wait()
    assert values(feed) == [b"a", b"b"]
    assert not feed.partitions[0].is_on_its_way(0)
    assert broker.shared.read_ahead.fetched == 1


async def test_one_partition_that_waits_for_the_disk_does_not_hold_up_the_other(
    broker: Broker, disk: Disk
) -> None:
    await append(broker, b"cold")
    feed = feed_of(broker)
    assert values(feed) == []
    disk.is_warm = True  # for whatever is asked from now on
    await append(broker, b"warm", partition=1)
    assert values(feed) == [b"warm"]
    disk.may_go_on.set()
    assert await feed.more(30)
    assert values(feed) == [b"cold"]


async def test_who_only_looks_whether_there_is_more_is_woken_too(
    broker: Broker, partition: Partition, disk: Disk
) -> None:
    """D8: whoever it was that had the disk asked."""
    await append(broker, b"a")
    broker.shared.read_ahead.prepare(partition.log, 0, SIZE, 1)
    feed, waiter = feed_of(broker, is_patient=False), Waiter()
    assert feed.is_at_end
    feed.wait(waiter)
    disk.may_go_on.set()
    await waiter.woken.wait()
    assert values(feed) == [b"a"]


async def test_a_broken_disk_is_told_by_the_read(
    broker: Broker, partition: Partition, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D4: nobody waits for what never comes."""

    def fail(*_: object) -> None:
        raise StorageFailed("no")

    await append(broker, b"a")
    monkeypatch.setattr(Reader, "cold", fail)
    assert not partition.awaits_disk(0, SIZE)


async def test_nothing_is_asked_of_the_disk_any_more_when_the_node_stops(
    broker: Broker, partition: Partition, disk: Disk
) -> None:
    await append(broker, b"a")
    broker.shared.read_ahead.close()
    broker.shared.read_ahead.prepare(partition.log, 0, SIZE, 1)
    assert not partition.awaits_disk(0, SIZE)
    assert not broker.shared.read_ahead.fetched


async def test_a_reader_that_is_not_patient_is_served_at_once(broker: Broker, disk: Disk) -> None:
    """C1: even while another one waits for the same."""
    await append(broker, b"a")
    assert values(feed_of(broker)) == []
    assert values(feed_of(broker, is_patient=False)) == [b"a"]


async def test_new_records_wake_a_reader_who_waits_on_for_the_disk(
    broker: Broker, disk: Disk
) -> None:
    await append(broker, b"a")
    feed = feed_of(broker)
    assert values(feed) == []
    await append(broker, b"b")
    assert values(feed) == []
    waiter = Waiter()
    feed.wait(waiter)
    disk.may_go_on.set()
    await waiter.woken.wait()
    assert values(feed) == [b"a", b"b"]
    assert broker.shared.read_ahead.fetched == 1


async def test_who_has_waited_is_served_even_if_memory_has_forgotten_it_again(
    broker: Broker, disk: Disk
) -> None:
    """D2: as often as it asks, for a moment; else it might wait for ever."""
    disk.forgets = True
    await append(broker, b"a")
    feed = feed_of(broker)
    assert values(feed) == []
    disk.may_go_on.set()
    assert await feed.more(30)
    partition = feed.partitions[0]
    assert not partition.awaits_disk(0, SIZE)
    assert not partition.awaits_disk(0, SIZE)
    assert values(feed) == [b"a"]


async def test_readers_who_never_come_back_are_forgotten(
    broker: Broker, partition: Partition, disk: Disk
) -> None:
    """C11: bounded memory."""
    disk.forgets = True
    disk.may_go_on.set()
    for number in range(BROUGHT_MAX + 5):
        await append(broker, b"%d" % number)
        assert partition.awaits_disk(number, SIZE)
        await brought(broker)
    assert partition.awaits_disk(0, SIZE), "it was forgotten, and is brought once more"
    assert not partition.awaits_disk(BROUGHT_MAX, SIZE)
    await brought(broker)


async def test_a_reader_of_very_many_partitions_takes_no_more_descriptors_than_there_may_be(
    broker: Broker, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C11: what is beyond the limit is read at once."""
    monkeypatch.setattr(read_ahead, "UNDER_WAY_MAX", 1)
    await append(broker, b"a")
    await append(broker, b"b", partition=1)
    feed = feed_of(broker)
    [at_once] = values(feed)
    disk.may_go_on.set()
    assert await feed.more(30)
    assert {at_once, *values(feed)} == {b"a", b"b"}
    assert broker.shared.read_ahead.fetched == 1


async def test_offsets_without_records_are_not_waited_for(
    broker: Broker, partition: Partition, disk: Disk
) -> None:
    await append(broker, b"a", b"b")
    await partition.delete_records(1)
    assert not partition.awaits_disk(0, SIZE)
    assert not partition.awaits_disk(2, SIZE)
    assert not partition.awaits_disk(99, SIZE)
    assert partition.readable(0), "where a gap is to be skipped"


async def test_what_memory_has_is_not_waited_for(tmp_path: Path, disk: Disk) -> None:
    async with running(tmp_path, SystemClock()) as broker:
        await broker.topics.create("t")
        await append(broker, b"a")
        assert values(feed_of(broker)) == [b"a"]
        assert not broker.shared.read_ahead.fetched


async def test_a_shared_index_gives_what_the_disk_has_when_memory_has_it(
    broker: Broker, disk: Disk
) -> None:
    """A3, D2: and nothing is taken meanwhile."""
    await append(broker, b"a", b"b")
    cursor = await broker.cursors.open("g", "t", 0, start_ms=EARLIEST)
    assert isinstance(cursor, Cursor), "a node alone keeps all of them"
    waiter = Waiter()
    assert not cursor.take("x", 9, SIZE).taken
    assert not cursor.available_bytes(SIZE)
    cursor.wait(waiter)
    disk.may_go_on.set()
    await waiter.woken.wait()
    assert cursor.available_bytes(SIZE)
    found = cursor.take("x", 9, SIZE)
    assert [record.value for record, _ in found.records()] == [b"a", b"b"]


async def test_reaching_some_offsets_means_that_memory_has_them(broker: Broker, disk: Disk) -> None:
    """D2: who asks once is answered with records, and others are served until then."""
    await append(broker, b"a")
    feed = feed_of(broker, is_patient=False)
    reaching = asyncio.ensure_future(feed.reach({0: 1, 1: 0}, SIZE, 30))
    await append(broker, b"b")
    assert not reaching.done()
    disk.may_go_on.set()
    await reaching
    assert values(feed) == [b"a", b"b"]


async def test_a_topic_that_is_deleted_meanwhile_leaves_nothing_behind(
    broker: Broker, partition: Partition, disk: Disk
) -> None:
    await append(broker, b"a")
    assert partition.awaits_disk(0, SIZE)
    await broker.topics.delete("t")
    disk.may_go_on.set()
    await brought(broker)
    assert not partition.awaits_disk(0, SIZE)
