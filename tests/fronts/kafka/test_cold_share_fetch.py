"""Share groups that read what only the disk has."""

import asyncio
from typing import Any

import pytest

from chordmq.broker.broker import Broker
from chordmq.broker.groups.share_groups import Beat
from chordmq.broker.settings import BrokerSettings
from chordmq.clock import SystemClock
from chordmq.fronts.kafka.call import KafkaFront
from chordmq.fronts.listener import Listener, ListenerSettings
from chordmq.records.batch import walk
from chordmq.records.record import Record, read_records
from tests.cold_disk import Disk
from tests.fronts.cold import (
    PATIENCE_S,
    Looks,
    fetched_for_somebody_else,
    over,
    turns,
    waiting,
    written,
)
from tests.fronts.kafka.test_share_fetch import ACCEPT, Consumer, acquired, row

LONG_MS = 60_000
OLD = [b"%d" % number for number in range(10)]
UNKNOWN_TOPIC_ID = 100


@pytest.fixture
def settings() -> BrokerSettings:
    """Give a node that keeps no records in memory."""
    return BrokerSettings(node_id=7, log_memory_max_bytes=0)


@pytest.fixture
async def front(broker: Broker) -> KafkaFront:
    await broker.cursors.loaded.wait()
    for topic in "tu":
        await broker.topics.create(topic, 1)
    await written(broker, *OLD)
    await broker.group_settings.alter("g", lambda _: {"share.auto.offset.reset": "earliest"})
    await broker.share_groups.beat("g", Beat(member_id="m", epoch=0, topics=frozenset({"t"})))
    return KafkaFront(broker, Listener(ListenerSettings(), SystemClock(), "kafka"))


@pytest.fixture
def consumer(front: KafkaFront) -> Consumer:
    return Consumer(front, "m")


def records(answer: Any) -> list[Record]:
    view = memoryview(row(answer).records)
    return [
        record for at, header in walk(view) for record in read_records(view[at : at + header.size])
    ]


def values(answer: Any) -> list[bytes | None]:
    return [record.value for record in records(answer)]


@pytest.mark.parametrize("min_bytes", [1, 200], ids=["any", "many bytes"])
async def test_others_are_served_while_a_share_group_waits_for_the_disk(
    broker: Broker, consumer: Consumer, disk: Disk, looks: Looks, min_bytes: int
) -> None:
    """C4, D8: nobody else waits for it, and who does is not asked again and again."""
    answer = asyncio.ensure_future(
        consumer.fetch(0, max_wait_ms=LONG_MS, min_bytes=min_bytes, max_bytes=1 << 20)
    )
    await waiting(broker)
    await written(broker, b"new")
    await written(broker, b"other", topic="u")
    assert await looks.in_many_turns() == 0
    assert not answer.done()
    disk.may_go_on.set()
    found = await answer
    assert values(found) == [*OLD, b"new"]
    assert acquired(found) == [(0, 10, 1)]
    assert broker.shared.read_ahead.fetched == 1


async def test_records_that_do_not_stay_in_memory_are_given_all_the_same(
    consumer: Consumer, disk: Disk
) -> None:
    """C4: where memory is short, waiting again and again would take for ever."""
    disk.forgets = True
    disk.may_go_on.set()
    found: list[bytes | None] = []
    acks: list[tuple[int, int, int]] = []
    for epoch in range(5):
        limits = {"max_records": 2, "share_acquire_mode": 1, "max_bytes": 1 << 20}
        answer = await consumer.fetch(epoch, *acks, max_wait_ms=LONG_MS, min_bytes=1, **limits)
        [(first, last, deliveries)] = acquired(answer)
        assert (first, last, deliveries) == (2 * epoch, 2 * epoch + 1, 1)
        found += [one.value for one in records(answer) if first <= one.offset <= last]
        acks = [(first, last, ACCEPT)]
    assert found == OLD


async def test_a_fetch_is_answered_with_what_was_brought_for_somebody_else(
    broker: Broker, consumer: Consumer, disk: Disk
) -> None:
    """C4: the disk is asked once."""
    fetched_for_somebody_else(broker)
    answer = asyncio.ensure_future(
        consumer.fetch(0, max_wait_ms=LONG_MS, min_bytes=1, max_bytes=1 << 20)
    )
    await turns()
    assert not answer.done()
    disk.may_go_on.set()
    assert values(await answer) == OLD
    assert broker.shared.read_ahead.fetched == 1


async def test_a_fetch_that_does_not_wait_gets_the_records_with_a_later_one(
    broker: Broker, consumer: Consumer, disk: Disk
) -> None:
    """C4: a share consumer asks again, and has an empty answer mean nothing."""
    answer, epoch = await consumer.fetch(0, max_bytes=1 << 20), 0
    assert not answer.responses
    await waiting(broker)
    disk.may_go_on.set()
    async with asyncio.timeout(PATIENCE_S):
        while not answer.responses:
            epoch += 1
            answer = await consumer.fetch(epoch, max_bytes=1 << 20)
    assert values(answer) == OLD


async def test_a_topic_that_is_deleted_meanwhile_is_told(
    broker: Broker, consumer: Consumer, disk: Disk, no_complaints: None
) -> None:
    """C4: as an error of the partition."""
    answer = asyncio.ensure_future(
        consumer.fetch(0, max_wait_ms=LONG_MS, min_bytes=1, max_bytes=1 << 20)
    )
    await waiting(broker)
    await broker.topics.delete("t")
    assert row(await answer).error_code == UNKNOWN_TOPIC_ID
    disk.may_go_on.set()
    await turns()


async def test_a_consumer_may_leave_while_it_waits_for_the_disk(
    broker: Broker,
    front: KafkaFront,
    consumer: Consumer,
    disk: Disk,
    no_complaints: None,
) -> None:
    """C4: what it would have got goes to the next one, as if nobody had tried."""
    tasks = asyncio.all_tasks()
    answer = asyncio.ensure_future(
        consumer.fetch(0, max_wait_ms=LONG_MS, min_bytes=1, max_bytes=1 << 20)
    )
    await waiting(broker)
    answer.cancel()
    await asyncio.wait([answer])
    front.share_sessions.disconnected(consumer.client, broker.cursors)
    await over(tasks)
    assert not broker.partition("t", 0).readers
    disk.may_go_on.set()
    found = await Consumer(front, "n").fetch(0, max_wait_ms=LONG_MS, min_bytes=1, max_bytes=1 << 20)
    assert acquired(found) == [(0, 9, 1)]
