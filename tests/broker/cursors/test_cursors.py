"""Durable cursors on a real broker: what is given, what is stored and what a restart finds."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from chordmq.broker.broker import Broker
from chordmq.broker.cursors.cursor import Cursor, Delivery, Policy
from chordmq.broker.cursors.cursors import CURSOR_TOPIC, EARLIEST, LATEST
from chordmq.broker.cursors.shared_cursor import Limits, Outcome, Taken
from chordmq.broker.flusher import Flusher
from chordmq.broker.measures import cursor_measures
from chordmq.broker.settings import BrokerSettings
from chordmq.clock import ManualClock
from chordmq.errors import CoordinatorLoading, DiskFull, InvalidRecordState, UnknownTopic
from chordmq.records.batch import TRANSACTIONAL, walk
from chordmq.records.marker import Marker
from chordmq.records.record import NewRecord, build_batch
from tests.broker.running_broker import Waiter, running

MEGABYTE = 2**20
ACCEPT, RELEASE, REJECT, RENEW = Outcome.ACCEPT, Outcome.RELEASE, Outcome.REJECT, Outcome.RENEW


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def broker(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Broker]:
    async with running(tmp_path, clock) as broker:
        await broker.topics.create("t")
        yield broker


async def produce(broker: Broker, *values: str, topic: str = "t") -> None:
    """Append records as one batch."""
    records = [NewRecord(broker.clock.now_ms(), None, value.encode()) for value in values]
    await broker.append_records(topic, 0, records)


async def opened(broker: Broker, *, group: str = "g", policy: Policy | None = None) -> Cursor:
    cursor = await broker.cursors.open(group, "t", 0, start_ms=EARLIEST, policy=policy)
    assert isinstance(cursor, Cursor), "a node alone keeps all of them"
    return cursor


def values(delivery: Delivery) -> list[str]:
    return [(record.value or b"").decode() for record, _ in delivery.records()]


async def test_two_consumers_share_one_partition(broker: Broker) -> None:
    """A3: a shared index; each message goes to exactly one."""
    cursor = await opened(broker)
    await produce(broker, "a", "b", "c", "d")
    assert values(cursor.take("x", 2, MEGABYTE)) == ["a", "b"]
    assert values(cursor.take("y", 9, MEGABYTE)) == ["c", "d"]
    assert cursor.take("x", 9, MEGABYTE) == Delivery()


async def test_only_batches_with_taken_records_are_read(broker: Broker) -> None:
    cursor = await opened(broker)
    for value in "abc":
        await produce(broker, value)
    cursor.take("x", 3, MEGABYTE)
    await cursor.settle("x", 0, 2, [RELEASE, ACCEPT, RELEASE])
    delivery = cursor.take("y", 9, MEGABYTE)
    assert delivery.taken == [Taken(0, 0, 2), Taken(2, 2, 2)]
    assert values(delivery) == ["a", "c"]
    assert sum(1 for batch in delivery.batches for _ in walk(batch)) == 2


async def test_whole_batches_can_be_taken(broker: Broker) -> None:
    cursor = await opened(broker)
    await produce(broker, "a", "b", "c")
    await produce(broker, "d", "e")
    assert values(cursor.take("x", 1, MEGABYTE, in_batches=True)) == ["a", "b", "c"]


async def test_a_cursor_begins_at_the_end_the_beginning_or_a_time(
    broker: Broker, clock: ManualClock
) -> None:
    await produce(broker, "a")
    clock.advance(1000)
    since_ms = clock.now_ms()
    await produce(broker, "b", "c")
    for group, start_ms, start in [("l", LATEST, 3), ("e", EARLIEST, 0), ("t", since_ms, 1)]:
        cursor = await broker.cursors.open(group, "t", 0, start_ms=start_ms)
        assert cursor.start == start


async def test_what_is_settled_survives_a_restart_and_what_is_not_comes_again(
    tmp_path: Path, clock: ManualClock
) -> None:
    """A5: a consumer that was away resumes from its index and misses nothing."""
    async with running(tmp_path, clock) as broker:
        await broker.topics.create("t")
        cursor = await opened(broker)
        await produce(broker, "a", "b", "c", "d", "e")
        cursor.take("x", 4, MEGABYTE)
        await cursor.settle("x", 0, 2, [ACCEPT, RELEASE, ACCEPT])
    async with running(tmp_path, clock) as broker:
        cursor = await opened(broker)
        delivery = cursor.take("y", 9, MEGABYTE)
        assert delivery.taken == [Taken(1, 1, 2), Taken(3, 4, 1)]
        assert values(delivery) == ["b", "d", "e"]


async def test_where_a_new_cursor_begins_survives_a_restart(
    tmp_path: Path, clock: ManualClock
) -> None:
    """A5: what comes after the subscription is not missed, even if nobody was there to take it."""
    async with running(tmp_path, clock) as broker:
        await broker.topics.create("t")
        await produce(broker, "before")
        await broker.cursors.open("g", "t", 0, start_ms=LATEST)
        await produce(broker, "after")
    async with running(tmp_path, clock) as broker:
        cursor = await broker.cursors.open("g", "t", 0, start_ms=LATEST)
        assert values(cursor.take("y", 9, MEGABYTE)) == ["after"]


async def test_settlements_of_one_turn_are_one_write(broker: Broker) -> None:
    cursor = await opened(broker)
    await produce(broker, *"abcdefghij")
    cursor.take("x", 10, MEGABYTE)
    before = _log_end(broker)
    await asyncio.gather(*(cursor.settle("x", n, n, [ACCEPT]) for n in range(10)))
    assert _log_end(broker) == before + 1


def _log_end(broker: Broker) -> int:
    return sum(p.log.end_offset for p in broker.topics.get(CURSOR_TOPIC.name).partitions)


async def test_a_consumer_that_waits_is_woken_by_new_and_by_released_records(
    broker: Broker,
) -> None:
    """D8: a new message reaches a waiting consumer at once, never polled."""
    cursor = await opened(broker)
    waiter = Waiter()
    cursor.wait(waiter)
    await produce(broker, "a")
    await waiter.woken.wait()
    cursor.take("x", 1, MEGABYTE)
    waiter = Waiter()
    cursor.wait(waiter)
    cursor.leave("x")
    await waiter.woken.wait()
    assert cursor.take("y", 1, MEGABYTE).taken == [Taken(0, 0, 2)]


async def test_time_takes_records_from_a_slow_consumer(broker: Broker, clock: ManualClock) -> None:
    """D8: unacknowledged messages are redelivered."""
    cursor = await opened(broker, policy=Policy(Limits(lock_ms=1000)))
    await produce(broker, "a", "b")
    cursor.take("x", 2, MEGABYTE)
    clock.advance(600)
    await cursor.settle("x", 1, 1, [RENEW])
    waiter = Waiter()
    cursor.wait(waiter)
    clock.advance(400)
    broker.cursors.alarm.tick()
    await waiter.woken.wait()
    assert values(cursor.take("y", 9, MEGABYTE)) == ["a"]
    with pytest.raises(InvalidRecordState):
        await cursor.settle("x", 0, 0, [ACCEPT])
    await cursor.settle("x", 1, 1, [ACCEPT])


async def test_the_timer_needs_no_help(broker: Broker, clock: ManualClock) -> None:
    cursor = await opened(broker, policy=Policy(Limits(lock_ms=1)))
    await produce(broker, "a")
    cursor.take("x", 1, MEGABYTE)
    waiter = Waiter()
    cursor.wait(waiter)
    clock.advance(1)
    await waiter.woken.wait()


async def test_rejected_and_worn_out_records_go_to_the_dead_letter_topic(broker: Broker) -> None:
    """D10: with origin, count and reason."""
    policy = Policy(Limits(deliveries_max=2), dead_letter="t.dlq")
    cursor = await opened(broker, policy=policy)
    await produce(broker, "bad", "good", "slow")
    cursor.take("x", 3, MEGABYTE)
    await cursor.settle("x", 0, 2, [REJECT, ACCEPT, RELEASE])
    cursor.take("x", 1, MEGABYTE)
    await cursor.settle("x", 2, 2, [RELEASE])
    assert cursor.machine.start == 3
    letters = await broker.cursors.open("d", "t.dlq", 0, start_ms=EARLIEST)
    found = [(r.value, dict(r.headers)) for r, _ in letters.take("x", 9, MEGABYTE).records()]
    assert [value for value, _ in found] == [b"bad", b"slow"]
    assert found[1][1] == {
        "chordmq.origin.topic": b"t",
        "chordmq.origin.partition": b"0",
        "chordmq.origin.offset": b"2",
        "chordmq.dead.group": b"g",
        "chordmq.dead.deliveries": b"2",
        "chordmq.dead.reason": b"tried too often",
    }
    assert found[0][1]["chordmq.dead.reason"] == b"rejected"


async def test_without_a_dead_letter_topic_rejected_records_are_done(broker: Broker) -> None:
    cursor = await opened(broker)
    await produce(broker, "bad")
    cursor.take("x", 1, MEGABYTE)
    await cursor.settle("x", 0, 0, [REJECT])
    assert cursor.machine.start == 1
    assert broker.topics.find("t.dlq") is None


async def test_an_answer_that_cannot_be_stored_is_an_error_and_can_be_given_again(
    broker: Broker,
) -> None:
    cursor = await opened(broker)
    await produce(broker, "a")
    cursor.take("x", 1, MEGABYTE)
    broker.shared.full = "no room"
    with pytest.raises(DiskFull):
        await cursor.settle("x", 0, 0, [ACCEPT])
    broker.shared.full = ""
    await cursor.settle("x", 0, 0, [ACCEPT])
    assert cursor.machine.start == 1


async def test_a_deleted_topic_takes_its_cursors_along(tmp_path: Path, clock: ManualClock) -> None:
    async with running(tmp_path, clock) as broker:
        await broker.topics.create("t")
        cursor = await opened(broker)
        waiter = Waiter()
        cursor.wait(waiter)
        await broker.topics.delete("t")
        await waiter.woken.wait()
        with pytest.raises(UnknownTopic):
            cursor.take("x", 1, MEGABYTE)
        assert list(broker.cursors.groups()) == []
        await broker.topics.create("t")
        await opened(broker, group="other")
    async with running(tmp_path, clock) as broker:
        assert list(broker.cursors.groups()) == ["other"]


async def test_a_deleted_group_begins_anew(tmp_path: Path, clock: ManualClock) -> None:
    async with running(tmp_path, clock) as broker:
        await broker.topics.create("t")
        await opened(broker)
        await opened(broker, group="other")
        await broker.cursors.delete(broker.cursors.of_group("g"))
    async with running(tmp_path, clock) as broker:
        assert list(broker.cursors.groups()) == ["other"]


async def test_an_operator_can_set_the_start(tmp_path: Path, clock: ManualClock) -> None:
    async with running(tmp_path, clock) as broker:
        await broker.topics.create("t")
        cursor = await opened(broker)
        await produce(broker, "a", "b")
        cursor.take("x", 2, MEGABYTE)
        await cursor.settle("x", 0, 1, [ACCEPT])
        await broker.cursors.reset(cursor, 1)
        assert cursor.take("x", 9, MEGABYTE).taken == [Taken(1, 1, 1)]
    async with running(tmp_path, clock) as broker:
        assert (await opened(broker)).machine.start == 1


async def test_records_that_retention_removed_are_skipped(broker: Broker) -> None:
    cursor = await opened(broker)
    for value in "abcd":
        await produce(broker, value)
    cursor.take("x", 1, MEGABYTE)
    await broker.partition("t", 0).delete_records(2)
    assert values(cursor.take("y", 9, MEGABYTE)) == ["c", "d"]
    with pytest.raises(InvalidRecordState):
        await cursor.settle("x", 0, 0, [ACCEPT])


async def test_aborted_records_and_markers_are_not_given_to_readers_of_committed_ones(
    broker: Broker,
) -> None:
    """C3: read_committed never shows an aborted record."""
    cursor = await opened(broker, policy=Policy(only_stable=True))
    partition = broker.partition("t", 0)
    for producer_id, value in [(5, b"lost"), (6, b"kept")]:
        record = NewRecord(0, None, value)
        data = build_batch(
            [record], flags=TRANSACTIONAL, producer_id=producer_id, epoch=0, sequence=0
        )
        partition.append(memoryview(data), is_enlisted=True)
    await produce(broker, "plain")
    assert cursor.take("x", 9, MEGABYTE) == Delivery()
    await broker.append_marker("t", 0, Marker(5, 0, is_commit=False))
    await broker.append_marker("t", 0, Marker(6, 0, is_commit=True))
    delivery = cursor.take("x", 9, MEGABYTE)
    assert values(delivery) == ["kept", "plain"]
    assert delivery.taken == [Taken(1, 2, 1)]
    await cursor.settle("x", 1, 2, [ACCEPT])
    assert cursor.take("x", 9, MEGABYTE) == Delivery()
    assert cursor.lag == 0


async def test_lag_and_records_under_way_are_measured(broker: Broker) -> None:
    """C15: how far a share group is, as Prometheus sees it."""
    cursor = await opened(broker)
    await produce(broker, "a", "b", "c")
    cursor.take("x", 2, MEGABYTE)
    await cursor.settle("x", 1, 1, [ACCEPT])
    found = {metric.name: metric.samples for metric in cursor_measures(broker)}
    assert found == {
        "chordmq_cursor_lag": [({"group": "g"}, 2)],
        "chordmq_cursor_in_flight": [({"group": "g"}, 1)],
    }


async def test_until_the_log_is_read_consumers_are_asked_to_wait(
    tmp_path: Path, clock: ManualClock
) -> None:
    broker = Broker(tmp_path, BrokerSettings(), clock, Flusher())
    with pytest.raises(CoordinatorLoading):
        await broker.cursors.open("g", "t", 0)
    broker.close()
