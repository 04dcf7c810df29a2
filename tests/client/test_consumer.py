"""Records read from chosen places and in groups, on a real node."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from chordmq.client.admin import Admin
from chordmq.client.codes import Code
from chordmq.client.consumer import Consumer, ConsumerSettings
from chordmq.client.errors import BrokerRefused
from chordmq.client.fetcher import FetchSettings
from chordmq.client.membership import GroupSettings
from chordmq.client.offsets import EARLIEST, LATEST, Start
from chordmq.client.producer import Producer
from chordmq.records.record import NewRecord
from tests.running_node import RunningNode

QUICK = FetchSettings(max_wait_s=0.1)


def member(group: str, auto_commit_s: float | None = 5.0) -> ConsumerSettings:
    """Give the settings of a member that notices changes quickly."""
    return ConsumerSettings(
        group=GroupSettings(
            group=group,
            session_timeout_ms=30_000,
            heartbeat_interval_s=0.1,
            rebalance_timeout_ms=30_000,
            topics_check_s=0.2,
        ),
        auto_commit_s=auto_commit_s,
        fetch=QUICK,
    )


async def fill(bootstrap: str, topic: str, count: int, partitions: int = 1) -> None:
    async with Admin(bootstrap) as admin:
        await admin.create_topic(topic, partitions)
    async with Producer(bootstrap) as producer:
        for number in range(count):
            await producer.enqueue(
                topic, b"%d" % number, key=b"%d" % number, partition=number % partitions
            )


async def take(consumer: Consumer, count: int) -> list[int]:
    """Return the values of the next records."""
    values: list[int] = []
    async with asyncio.timeout(60):
        async for message in consumer:
            values.append(int(message.value or b""))
            if len(values) == count:
                return values
    raise AssertionError


@pytest.fixture
async def consumer(node: RunningNode) -> AsyncIterator[Consumer]:
    async with Consumer(node.bootstrap, ConsumerSettings(fetch=QUICK)) as opened:
        yield opened


async def test_a_topic_is_read_from_its_first_record(
    node: RunningNode, consumer: Consumer, name: str
) -> None:
    await fill(node.bootstrap, name, 300, partitions=3)
    await consumer.assign_topic(name, EARLIEST)
    assert sorted(await take(consumer, 300)) == list(range(300))


async def test_reading_starts_at_an_offset_or_a_time_and_can_seek(
    node: RunningNode, consumer: Consumer, name: str
) -> None:
    """C6: by offset, by timestamp, earliest and latest."""
    now_ms = consumer.cluster.clock.now_ms()
    async with Producer(node.bootstrap) as producer:
        rows = [NewRecord(now_ms - 10_000 + n * 1_000, None, b"%d" % n) for n in range(10)]
        await producer.enqueue_all(name, rows, partition=0)
    await consumer.assign({(name, 0): Start(7)})
    assert await take(consumer, 3) == [7, 8, 9]
    await consumer.assign({(name, 0): Start(timestamp_ms=now_ms - 5_500)})
    assert consumer.position(name, 0) == 5
    assert await take(consumer, 1) == [5]
    await consumer.seek(name, 0, Start(2))
    assert await take(consumer, 2) == [2, 3]
    assert consumer.position(name, 0) == 4
    await consumer.assign({(name, 0): Start(timestamp_ms=now_ms + 60_000)})
    assert consumer.position(name, 0) == 10, "nothing is so new: the end"


async def test_the_latest_place_shows_only_what_comes_afterwards(
    node: RunningNode, consumer: Consumer, name: str
) -> None:
    await fill(node.bootstrap, name, 5)
    await consumer.assign_topic(name, LATEST)
    assert await consumer.poll(0.3) is None
    async with Producer(node.bootstrap) as producer:
        await producer.send(name, b"99")
    assert await take(consumer, 1) == [99]


async def test_a_waiting_reader_gets_a_record_at_once(
    node: RunningNode, consumer: Consumer, name: str
) -> None:
    """C6: fetch waits for new data and does not poll."""
    await fill(node.bootstrap, name, 0)
    patient = ConsumerSettings(fetch=FetchSettings(max_wait_s=50.0))
    async with Consumer(node.bootstrap, patient) as waiting, Producer(node.bootstrap) as producer:
        await waiting.assign_topic(name)
        async with asyncio.timeout(40), asyncio.TaskGroup() as tasks:
            poll = tasks.create_task(waiting.poll(60.0))
            await asyncio.sleep(0.2)
            await producer.send(name, b"1")
        chunk = poll.result()
    assert chunk is not None
    assert [record.value for record in chunk.records] == [b"1"]


async def test_an_offset_outside_the_log_is_reset_or_raised_as_chosen(
    node: RunningNode, consumer: Consumer, name: str
) -> None:
    await fill(node.bootstrap, name, 5)
    await consumer.assign({(name, 0): Start(1_000)})
    assert await take(consumer, 5) == [0, 1, 2, 3, 4]
    strict = ConsumerSettings(fetch=FetchSettings(reset=None))
    async with Consumer(node.bootstrap, strict) as careful:
        await careful.assign({(name, 0): Start(1_000)})
        with pytest.raises(BrokerRefused) as caught:
            await careful.poll(60.0)
    assert caught.value.code == Code.OFFSET_OUT_OF_RANGE


async def test_a_topic_that_does_not_exist_is_told(consumer: Consumer, name: str) -> None:
    with pytest.raises(BrokerRefused, match="UNKNOWN_TOPIC_OR_PARTITION"):
        await consumer.assign_topic(name)


async def test_a_group_goes_on_where_it_stopped(node: RunningNode, name: str) -> None:
    """A5: a consumer that was away resumes from its index and misses nothing."""
    await fill(node.bootstrap, name, 100)
    got = []
    for count in (1, 30, 69):
        async with Consumer(node.bootstrap, member(name)) as consumer:
            await consumer.subscribe(name)
            got += await take(consumer, count)
    assert got == list(range(100))


async def test_a_record_whose_processing_failed_is_read_again(node: RunningNode, name: str) -> None:
    """A5: a crash repeats records and never skips one."""
    await fill(node.bootstrap, name, 10)

    async def fail_in_the_middle() -> None:
        async with Consumer(node.bootstrap, member(name)) as consumer:
            await consumer.subscribe(name)
            assert await take(consumer, 4) == [0, 1, 2, 3]
            await consumer.commit()
            await take(consumer, 2)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail_in_the_middle()
    async with Consumer(node.bootstrap, member(name)) as consumer:
        await consumer.subscribe(name)
        assert await take(consumer, 1) == [4]


async def test_two_members_share_a_topic_and_each_record_is_read_by_one(
    node: RunningNode, name: str
) -> None:
    """Each record is processed by exactly one member, also across the rebalance."""
    await fill(node.bootstrap, name, 400, partitions=4)
    seen: Counter[int] = Counter()
    owners: dict[int, set[int]] = {1: set(), 2: set()}
    finished = asyncio.Event()

    async def read(number: int, settled: asyncio.Event) -> None:
        async with Consumer(node.bootstrap, member(name)) as consumer:
            await consumer.subscribe(name)
            while not finished.is_set():
                chunk = await consumer.poll(0.2)
                owners[number] = {index for _, index in consumer.assignment}
                if len(owners[1]) == len(owners[2]) == 2:
                    settled.set()
                seen.update(int(row.value or b"") for row in (chunk.records if chunk else []))
                if len(seen) >= 500:
                    finished.set()

    settled = asyncio.Event()
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        tasks.create_task(read(1, settled))
        tasks.create_task(read(2, settled))
        await settled.wait()
        async with Producer(node.bootstrap) as producer:
            for number in range(400, 500):
                await producer.enqueue(name, b"%d" % number, partition=number % 4)
    assert owners[1] | owners[2] == {0, 1, 2, 3}
    assert set(seen) == set(range(500))
    assert max(seen.values()) == 1


async def test_a_member_that_leaves_hands_its_partitions_over(node: RunningNode, name: str) -> None:
    await fill(node.bootstrap, name, 0, partitions=2)
    async with Consumer(node.bootstrap, member(name)) as stays:
        await stays.subscribe(name)
        await stays.poll(0.5)
        async with Consumer(node.bootstrap, member(name)) as leaves:
            await leaves.subscribe(name)
            async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
                tasks.create_task(_poll_until(stays, 1))
                tasks.create_task(_poll_until(leaves, 1))
        async with asyncio.timeout(60):
            await _poll_until(stays, 2)


async def test_partitions_added_later_are_read_too(node: RunningNode, name: str) -> None:
    await fill(node.bootstrap, name, 1)
    async with Consumer(node.bootstrap, member(name)) as consumer, Admin(node.bootstrap) as admin:
        await consumer.subscribe(name)
        assert await take(consumer, 1) == [0]
        await admin.add_partitions(name, 2)
        async with asyncio.timeout(60):
            await _poll_until(consumer, 2)
        async with Producer(node.bootstrap) as producer:
            await producer.send(name, b"7", partition=1)
        assert await take(consumer, 1) == [7]


async def _poll_until(consumer: Consumer, partitions: int) -> None:
    while len(consumer.assignment) != partitions:
        await consumer.poll(0.1)


async def test_a_manual_commit_counts_the_record_in_hand(node: RunningNode, name: str) -> None:
    await fill(node.bootstrap, name, 10)
    async with Consumer(node.bootstrap, member(name, auto_commit_s=None)) as consumer:
        await consumer.subscribe(name)
        await take(consumer, 3)
        await consumer.commit()
        assert await consumer.committed() == {(name, 0): 3}
        await consumer.commit({(name, 0): 1})
    async with Admin(node.bootstrap) as admin:
        assert await admin.committed(name) == {(name, 0): 1}


async def test_a_consumer_survives_a_restart_of_its_node(own_node: RunningNode, name: str) -> None:
    """The client reconnects by itself and goes on where it was."""
    await fill(own_node.bootstrap, name, 10)
    async with Consumer(own_node.bootstrap, member(name)) as consumer:
        await consumer.subscribe(name)
        assert await take(consumer, 10) == list(range(10))
        await asyncio.to_thread(own_node.restart)
        async with Producer(own_node.bootstrap) as producer:
            await producer.send(name, b"10")
        got = []
        while 10 not in got:
            got += await take(consumer, 1)
