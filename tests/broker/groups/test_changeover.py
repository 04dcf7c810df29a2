"""Groups that change their protocol on a real broker: its log, its crashes and its failures."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from chordmq.broker.broker import Broker
from chordmq.broker.groups.classic_groups import Group
from chordmq.broker.groups.classic_states import State
from chordmq.broker.groups.consumer_groups import Beat, ConsumerGroup
from chordmq.broker.groups.consumer_protocol import read_assignment, write_assignment
from chordmq.broker.groups.membership import Identity, Join, Joined, Leaver, Sync
from chordmq.broker.groups.offsets import Commit
from chordmq.clock import ManualClock
from chordmq.errors import (
    CoordinatorNotAvailable,
    GroupNotFound,
    IllegalGeneration,
    RebalanceInProgress,
    StorageFailed,
    UnknownMember,
)
from tests.broker.groups.test_coordinator import running

SUBSCRIPTION = b"\x00\x01\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff\x00\x00\x00\x00"
EVERYTHING = frozenset({("t", 0), ("t", 1)})


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def broker(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Broker]:
    async with running(tmp_path, clock) as broker:
        await broker.topics.create("t", 2, 1)
        yield broker


def joining(member_id: str = "", protocol_type: str = "consumer") -> Join:
    return Join(
        protocol_type=protocol_type,
        protocols=(("range", SUBSCRIPTION),),
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        client_id="c",
    )


def identity(joined: Joined) -> Identity:
    return Identity(member_id=joined.member_id, generation=joined.generation)


async def classic(broker: Broker, **changes: Any) -> Joined:
    """Bring a classic group of one member to its first stable generation."""
    joined = await broker.groups.join("g", joining(**changes))
    plan = {joined.member_id: write_assignment(EVERYTHING, 1)}
    await broker.groups.sync("g", Sync(member=identity(joined), assignments=plan))
    return joined


async def consumer(broker: Broker, member_id: str = "new", epoch: int = 0) -> set[int]:
    beat = Beat(
        member_id=member_id,
        epoch=epoch,
        rebalance_timeout_ms=10_000,
        topics=frozenset({"t"}),
        owned=frozenset(),
    )
    beaten = await broker.groups.consumer_heartbeat("g", beat)
    return {index for _, index in beaten.assignment or ()}


async def test_a_group_goes_over_and_back_with_its_members_and_offsets(broker: Broker) -> None:
    """C4: the classic member keeps what it has until it has joined again."""
    groups = broker.groups
    old = await classic(broker)
    await groups.commit("g", identity(old), [Commit("t", 0, 5)])
    assert await consumer(broker) == set()
    assert isinstance(groups.find("g"), ConsumerGroup)
    with pytest.raises(RebalanceInProgress):
        groups.heartbeat("g", identity(old))
    again = await groups.join("g", joining(old.member_id))
    assert (again.member_id, again.leader) == (old.member_id, "")
    synced = await groups.sync("g", Sync(member=identity(again), assignments={}))
    kept = read_assignment(synced.assignment)
    assert kept is not None
    assert len(kept) == 1
    groups.heartbeat("g", identity(again))
    with pytest.raises(IllegalGeneration):
        await groups.commit("g", identity(old), [Commit("t", 0, 6)])
    await groups.consumer_heartbeat("g", Beat(member_id="new", epoch=-1))
    group = groups.find("g")
    assert isinstance(group, Group)
    assert group.state is State.PREPARING
    assert groups.committed("g")["t", 0].offset == 5
    last = await groups.join("g", joining(old.member_id))
    assert (last.leader, last.generation) == (old.member_id, again.generation + 1)


async def test_both_kinds_of_members_survive_a_crash(tmp_path: Path, clock: ManualClock) -> None:
    """C4: a restart finds the group as it was."""
    async with running(tmp_path, clock) as broker:
        await broker.topics.create("t", 2, 1)
        old = await classic(broker)
        await consumer(broker)
        group = broker.groups.find("g")
        assert isinstance(group, ConsumerGroup)
        before = group.image.records()
    async with running(tmp_path, clock) as broker:
        group = broker.groups.find("g")
        assert isinstance(group, ConsumerGroup)
        assert group.image.records() == before
        with pytest.raises(RebalanceInProgress):
            broker.groups.heartbeat("g", identity(old))
        clock.advance(60_000)
        broker.groups.tick()
        assert group.is_empty
        await broker.groups.delete("g")
    async with running(tmp_path, clock) as broker:
        with pytest.raises(GroupNotFound):
            broker.groups.find("g")


async def test_a_downgraded_group_survives_a_crash(tmp_path: Path, clock: ManualClock) -> None:
    """C4: and its members are made to join again."""
    async with running(tmp_path, clock) as broker:
        await broker.topics.create("t", 2, 1)
        old = await classic(broker)
        await consumer(broker)
        await broker.groups.leave("g", [Leaver(member_id="new")])
    async with running(tmp_path, clock) as broker:
        group = broker.groups.find("g")
        assert isinstance(group, Group)
        assert set(group.roster.members) == {old.member_id}
        with pytest.raises(IllegalGeneration):
            broker.groups.heartbeat("g", identity(old))
        again = await broker.groups.join("g", joining(old.member_id))
        assert again.leader == old.member_id, "it shares out what the other has left"


async def test_an_empty_group_takes_the_protocol_of_whoever_comes(broker: Broker) -> None:
    groups = broker.groups
    assert await consumer(broker) == {0, 1}
    await groups.consumer_heartbeat("g", Beat(member_id="new", epoch=-1))
    joined = await classic(broker)
    assert isinstance(groups.find("g"), Group)
    await groups.leave("g", [Leaver(member_id=joined.member_id)])
    assert await consumer(broker) == {0, 1}
    assert isinstance(groups.find("g"), ConsumerGroup)


async def test_a_group_that_cannot_go_over_stays(broker: Broker) -> None:
    """C4: groups of Kafka Connect and the like are not consumers."""
    await classic(broker, protocol_type="connect")
    with pytest.raises(GroupNotFound):
        await consumer(broker)
    assert isinstance(broker.groups.find("g"), Group)
    with pytest.raises(UnknownMember):
        await consumer(broker, epoch=3)


async def test_a_parked_join_is_sent_to_join_again(broker: Broker) -> None:
    old = await classic(broker)
    second = asyncio.ensure_future(broker.groups.join("g", joining()))
    await asyncio.sleep(0)
    await consumer(broker)
    with pytest.raises(RebalanceInProgress):
        await second
    again = await broker.groups.join("g", joining(old.member_id))
    assert again.member_id == old.member_id


async def test_a_group_stays_what_the_log_says_when_a_write_fails(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C4: neither half of a change of protocol is seen when the log refuses it."""
    old = await classic(broker)
    append = broker.append_records

    async def refuse(topic: str, partition: int, records: Sequence[Any], **_: Any) -> int:
        raise StorageFailed("the disk is gone")

    monkeypatch.setattr(broker, "append_records", refuse)
    with pytest.raises(CoordinatorNotAvailable):
        await consumer(broker)
    broker.groups.heartbeat("g", identity(old))
    monkeypatch.setattr(broker, "append_records", append)
    await consumer(broker)
    monkeypatch.setattr(broker, "append_records", refuse)
    with pytest.raises(CoordinatorNotAvailable):
        await consumer(broker, "newer")
    group = broker.groups.find("g")
    assert isinstance(group, ConsumerGroup)
    assert set(group.image.members) == {old.member_id, "new"}
    with pytest.raises(CoordinatorNotAvailable):
        await broker.groups.leave("g", [Leaver(member_id="new")])
    assert set(group.image.members) == {old.member_id, "new"}
    assert broker.groups.find("g") is group
