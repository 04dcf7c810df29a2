"""Share groups on a real broker: cursors opened in time, members let go, restarts."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from chordmq.broker.broker import Broker
from chordmq.broker.cursors.shared_cursor import Outcome
from chordmq.broker.groups.coordinator import OUTSIDER
from chordmq.broker.groups.offsets import Commit
from chordmq.broker.groups.share_coordinator import Start
from chordmq.broker.groups.share_groups import Beat, Beaten
from chordmq.clock import ManualClock
from chordmq.errors import (
    ChordMQError,
    GroupNotEmpty,
    GroupNotFound,
    InvalidGroupId,
    InvalidRequest,
    UnknownMember,
    UnknownTopic,
)
from chordmq.records.record import NewRecord
from tests.broker.running_broker import Waiter, running

MEGABYTE = 2**20
SESSION_MS = 45_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def broker(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Broker]:
    async with running(tmp_path, clock) as broker:
        await broker.topics.create("t")
        yield broker


async def beat(broker: Broker, member_id: str = "m", epoch: int = 0) -> Beaten:
    topics = frozenset({"t"}) if epoch == 0 else None
    return await broker.share_groups.beat(
        "g", Beat(member_id=member_id, epoch=epoch, topics=topics)
    )


async def produce(broker: Broker, partition: int = 0) -> None:
    await broker.append_records("t", partition, [NewRecord(0, None, b"x")])


def starts(broker: Broker) -> list[int]:
    return [cursor.machine.start for cursor in broker.cursors.of_group("g")]


async def test_what_comes_after_a_member_joined_is_not_missed(broker: Broker) -> None:
    """A5: a group begins where its first member subscribed."""
    await produce(broker)
    await beat(broker)
    assert starts(broker) == [1]


async def test_a_new_partition_is_read_from_its_beginning(broker: Broker) -> None:
    await produce(broker)
    await beat(broker)
    await broker.topics.add_partitions("t", 2)
    await produce(broker, 1)
    beaten = await beat(broker, epoch=1)
    assert beaten.assignment is not None
    assert len(beaten.assignment) == 2
    assert starts(broker) == [1, 0]


async def test_cursors_that_could_not_be_opened_are_opened_with_the_next_heartbeat(
    broker: Broker,
) -> None:
    broker.shared.full = "no room"
    with pytest.raises(ChordMQError):
        await beat(broker)
    broker.shared.full = ""
    await beat(broker)
    assert starts(broker) == [0]


@pytest.mark.parametrize(("reset", "start"), [("earliest", 0), ("by_duration:PT1M", 1)])
async def test_a_group_begins_where_its_setting_says(
    broker: Broker, clock: ManualClock, reset: str, start: int
) -> None:
    await broker.group_settings.alter("g", lambda _: {"share.auto.offset.reset": reset})
    for age_ms in (3_600_000, 1_000):
        record = NewRecord(clock.now_ms() - age_ms, None, b"x")
        await broker.append_records("t", 0, [record])
    await beat(broker)
    assert starts(broker) == [start]


async def test_a_member_that_is_not_heard_of_leaves_its_records_to_others(
    broker: Broker, clock: ManualClock
) -> None:
    await beat(broker, "gone")
    await beat(broker, "here")
    await produce(broker)
    (cursor,) = broker.cursors.of_group("g")
    cursor.take("gone", 1, MEGABYTE)
    clock.advance(SESSION_MS - 1)
    await beat(broker, "here", 2)
    clock.advance(1)
    broker.share_groups.alarm.tick()
    assert list(broker.share_groups.find("g").members) == ["here"]
    waiter = Waiter()
    cursor.wait(waiter)
    await waiter.woken.wait()
    assert cursor.take("here", 1, MEGABYTE).taken
    with pytest.raises(UnknownMember):
        await beat(broker, "gone", 1)


async def test_a_member_can_leave(broker: Broker) -> None:
    await beat(broker)
    assert await beat(broker, epoch=-1) == Beaten(-1, None)
    assert broker.share_groups.find("g").state == "Empty"
    with pytest.raises(UnknownMember):
        await beat(broker, epoch=-1)


async def test_a_change_of_settings_reaches_open_cursors(broker: Broker) -> None:
    await beat(broker)
    changed = {
        "share.record.lock.duration.ms": "2000",
        "share.isolation.level": "read_committed",
        "errors.deadletterqueue.topic.name": "{topic}.dlq",
    }
    await broker.group_settings.alter("g", lambda _: changed)
    (cursor,) = broker.cursors.of_group("g")
    assert cursor.machine.limits.lock_ms == 2000
    assert (cursor.policy.only_stable, cursor.policy.dead_letter) == (True, "t.dlq")


async def test_a_restart_keeps_the_group_its_place_and_its_settings(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with running(tmp_path, clock) as broker:
        await broker.topics.create("t")
        await broker.group_settings.alter("g", lambda _: {"share.delivery.count.limit": "7"})
        await beat(broker)
        await produce(broker)
        (cursor,) = broker.cursors.of_group("g")
        cursor.take("m", 1, MEGABYTE)
        await cursor.settle("m", 0, 0, [Outcome.ACCEPT])
    async with running(tmp_path, clock) as broker:
        (cursor,) = broker.cursors.of_group("g")
        assert cursor.machine.start == 1
        assert cursor.machine.limits.deliveries_max == 7
        assert [group.group_id for group in broker.share_groups.groups()] == ["g"]
        with pytest.raises(UnknownMember):
            await beat(broker, epoch=1)
        assert (await beat(broker)).assignment


async def test_a_group_can_be_moved_and_deleted_when_it_is_empty(broker: Broker) -> None:
    await produce(broker)
    await beat(broker)
    coordinator = broker.share_groups
    for work in (
        coordinator.delete("g"),
        coordinator.set_starts("g", []),
        coordinator.delete_starts("g", "t"),
    ):
        with pytest.raises(GroupNotEmpty):
            await work
    await beat(broker, epoch=-1)
    results = await coordinator.set_starts("g", [Start("t", 0, 0), Start("t", 5, 0)])
    assert results[0] is None
    assert isinstance(results[1], UnknownTopic)
    assert starts(broker) == [0]
    await coordinator.delete_starts("g", "t")
    assert starts(broker) == []
    await beat(broker)
    await beat(broker, epoch=-1)
    await coordinator.delete("g")
    assert not coordinator.has("g")
    with pytest.raises(GroupNotFound):
        await coordinator.delete("g")


async def test_a_group_of_another_kind_has_its_id_for_itself(broker: Broker) -> None:
    await broker.groups.commit("g", OUTSIDER, [Commit("t", 0, 1)])
    with pytest.raises(GroupNotFound):
        await beat(broker)


@pytest.mark.parametrize(
    ("group", "member", "epoch", "error"),
    [
        ("", "m", 0, InvalidGroupId),
        ("g", "", 0, InvalidRequest),
        ("g", "m", -2, InvalidRequest),
        ("g", "m" * 2000, 0, InvalidRequest),
    ],
)
async def test_a_heartbeat_that_makes_no_sense_is_refused(
    broker: Broker, group: str, member: str, epoch: int, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await broker.share_groups.beat(
            group, Beat(member_id=member, epoch=epoch, topics=frozenset({"t"}))
        )
    assert not broker.share_groups.has("g")
