"""The group coordinator on a real broker: its log, its timer and its restart."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from chordmq.broker.broker import Broker
from chordmq.broker.flusher import Flusher
from chordmq.broker.groups.classic_states import State
from chordmq.broker.groups.coordinator import GroupCoordinator
from chordmq.broker.groups.log import TOPIC
from chordmq.broker.groups.membership import Identity, Join, Joined, Leaver, Sync
from chordmq.broker.groups.offsets import Commit
from chordmq.broker.internal_log import java_hash
from chordmq.broker.settings import BrokerSettings
from chordmq.clock import ManualClock
from chordmq.errors import (
    CoordinatorLoading,
    CoordinatorNotAvailable,
    GroupNotEmpty,
    GroupNotFound,
    GroupSubscribed,
    IllegalGeneration,
    InvalidGroupId,
    InvalidRequest,
    MemberIdRequired,
    OffsetMetadataTooLarge,
    UnknownMember,
)

SETTINGS = BrokerSettings(
    group_min_session_timeout_ms=1,
    group_initial_rebalance_delay_ms=0,
    offsets_topic_num_partitions=4,
)
SESSION_MS = 10_000
OUTSIDER = Identity()
SUBSCRIPTION = b"\x00\x01\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff"


@asynccontextmanager
async def running(
    directory: Path, clock: ManualClock, settings: BrokerSettings = SETTINGS
) -> AsyncIterator[Broker]:
    """Run a broker with a loaded coordinator; its end is that of a node that was stopped."""
    broker = Broker(directory, settings, clock, Flusher())
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(broker.groups.run())
        try:
            await broker.groups.loaded.wait()
            yield broker
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            broker.close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def broker(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Broker]:
    async with running(tmp_path, clock) as broker:
        await broker.topics.create("t", 2, 1)
        yield broker


@pytest.fixture
def groups(broker: Broker) -> GroupCoordinator:
    return broker.groups


def join(member_id: str = "", **changes: object) -> Join:
    fields: dict[str, object] = {
        "member_id": member_id,
        "client_id": "c",
        "client_host": "/h",
        "protocol_type": "consumer",
        "protocols": (("range", SUBSCRIPTION),),
        "session_timeout_ms": SESSION_MS,
        "rebalance_timeout_ms": SESSION_MS,
        **changes,
    }
    return Join(**fields)  # type: ignore[arg-type]


def identity(joined: Joined) -> Identity:
    return Identity(member_id=joined.member_id, generation=joined.generation)


async def stable(groups: GroupCoordinator, group_id: str = "g") -> Joined:
    """Bring a group of one member to its first stable generation."""
    joined = await groups.join(group_id, join())
    plan = {joined.member_id: b"all"}
    synced = await groups.sync(group_id, Sync(member=identity(joined), assignments=plan))
    assert synced.assignment == b"all"
    return joined


async def commit(groups: GroupCoordinator, group_id: str, offset: int, topic: str = "t") -> None:
    assert await groups.commit(group_id, OUTSIDER, [Commit(topic, 0, offset)]) == [None]


async def written(groups: GroupCoordinator, group_id: str) -> None:
    """Return when all that the group has decided is in the log: later writes end later."""
    place = groups._log.partition_of(group_id)
    names = (f"marker-{n}" for n in itertools.count())
    await commit(groups, next(n for n in names if groups._log.partition_of(n) == place), 1)


def log_end(broker: Broker) -> int:
    return sum(partition.log.end_offset for partition in broker.topics.get(TOPIC).partitions)


async def test_members_join_sync_and_heartbeat(groups: GroupCoordinator) -> None:
    joined = await stable(groups)
    groups.heartbeat("g", identity(joined))
    assert groups.find("g").state is State.STABLE


async def test_a_group_that_nobody_knows_has_no_members(groups: GroupCoordinator) -> None:
    with pytest.raises(UnknownMember):
        groups.heartbeat("g", Identity(member_id="m", generation=1))
    with pytest.raises(UnknownMember):
        await groups.join("g", join("m"))
    with pytest.raises(UnknownMember):
        await groups.leave("g", [Leaver(member_id="m")])
    with pytest.raises(GroupNotFound):
        groups.find("g")
    assert list(groups.groups()) == []


async def test_a_refused_first_join_leaves_no_group_behind(groups: GroupCoordinator) -> None:
    with pytest.raises(InvalidGroupId):
        await groups.join("", join())
    with pytest.raises(InvalidRequest):
        await groups.join("g", join(instance_id="i" * 40_000))
    with pytest.raises(MemberIdRequired):
        await groups.join("kept", join(takes_id_first=True))
    assert [group.group_id for group in groups.groups()] == ["kept"]
    assert groups._classic._waiting == {}


async def test_a_session_ends_by_the_timer(groups: GroupCoordinator, clock: ManualClock) -> None:
    joined = await stable(groups)
    clock.advance(SESSION_MS - 1)
    groups.tick()
    groups.heartbeat("g", identity(joined))
    clock.advance(SESSION_MS)
    groups.tick()
    assert groups.find("g").state is State.EMPTY


async def test_the_timer_is_armed_by_the_event_loop_itself(tmp_path: Path) -> None:
    class LoopClock(ManualClock):
        def monotonic_s(self) -> float:
            return asyncio.get_running_loop().time()

    async with running(tmp_path, LoopClock()) as broker:
        silent = await broker.groups.join("g", join(session_timeout_ms=20))
        joined = await broker.groups.join("g", join())  # parked until the other is given up
        assert silent.member_id not in {member.member_id for member in joined.members}


async def test_one_timer_serves_all_groups(groups: GroupCoordinator) -> None:
    for n in range(20):
        await stable(groups, f"g{n}")
    assert groups._alarm._timer is not None
    assert len(groups._alarm._deadlines._heap) <= 2 * 20


async def test_a_client_that_goes_away_does_not_disturb_its_group(
    groups: GroupCoordinator,
) -> None:
    first = await stable(groups)
    async with asyncio.TaskGroup() as tasks:
        parked = tasks.create_task(groups.join("g", join()))
        await asyncio.sleep(0)
        parked.cancel()
    again = await groups.join("g", join(first.member_id))
    assert again.generation == 2
    assert len(again.members) == 2


async def test_committed_offsets_come_back_with_their_metadata(groups: GroupCoordinator) -> None:
    """C1: OffsetCommit metadata comes back unchanged."""
    wanted = Commit("t", 1, 42, leader_epoch=0, metadata="note")
    assert await groups.commit("g", OUTSIDER, [wanted]) == [None]
    found = groups.committed("g")["t", 1]
    assert (found.offset, found.leader_epoch, found.metadata) == (42, 0, "note")
    assert groups.find("g").state is State.EMPTY
    assert groups.committed("unknown") == {}


async def test_a_commit_that_is_too_long_does_not_hinder_the_others(
    groups: GroupCoordinator,
) -> None:
    rows = [Commit("t", 0, 1, metadata="x" * 5_000), Commit("t", 1, 2)]
    first, second = await groups.commit("g", OUTSIDER, rows)
    assert isinstance(first, OffsetMetadataTooLarge)
    assert second is None
    assert set(groups.committed("g")) == {("t", 1)}


async def test_a_commit_of_a_generation_in_an_unknown_group_is_refused(
    groups: GroupCoordinator,
) -> None:
    with pytest.raises(IllegalGeneration):
        await groups.commit("g", Identity(member_id="m", generation=3), [Commit("t", 0, 1)])


async def test_commits_of_one_moment_share_few_appends(
    broker: Broker, groups: GroupCoordinator
) -> None:
    """C4: group commit; a thousand commits must not cost a thousand flushes."""
    await commit(groups, "first", 0)
    before = sum(p.log.end_offset for p in broker.topics.get(TOPIC).partitions)
    async with asyncio.TaskGroup() as tasks:
        for n in range(1_000):
            tasks.create_task(commit(groups, f"g{n}", n))
    partitions = broker.topics.get(TOPIC).partitions
    batches = sum(len(list(partition.log.batches(0))) for partition in partitions)
    assert log_end(broker) - before == 1_000
    assert batches <= 1 + 2 * len(partitions)
    assert groups.committed("g999")["t", 0].offset == 999


async def test_the_log_is_a_compacted_topic_with_the_partitions_of_the_setting(
    broker: Broker, groups: GroupCoordinator
) -> None:
    assert broker.topics.find(TOPIC) is None
    await commit(groups, "g", 1)
    topic = broker.topics.get(TOPIC)
    assert topic.is_internal
    assert topic.settings.is_compacted
    assert len(topic.partitions) == 4
    assert topic.partitions[java_hash("g") % 4].log.end_offset == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("g", 103), ("console-consumer-12345", None), ("polygenelubricants", 0)],
)
def test_groups_are_placed_by_javas_hash(text: str, expected: int | None) -> None:
    """C1: `polygenelubricants` hashes to the smallest integer, whose sign is cut off."""
    if expected is not None:
        assert java_hash(text) == expected
    assert 0 <= java_hash(text) < 2**31


async def test_offsets_and_groups_survive_a_restart(tmp_path: Path, clock: ManualClock) -> None:
    """A5: a consumer that was away resumes from its offset."""
    async with running(tmp_path, clock) as broker:
        await broker.topics.create("t", 2, 1)
        await commit(broker.groups, "g", 5)
        await commit(broker.groups, "g", 6)
        await commit(broker.groups, "deleted", 7)
        await broker.groups.delete("deleted")
    async with running(tmp_path, clock) as broker:
        assert broker.groups.committed("g")["t", 0].offset == 6
        assert [group.group_id for group in broker.groups.groups()] == ["g"]


async def test_members_go_on_after_a_restart_without_a_rebalance(
    tmp_path: Path, clock: ManualClock
) -> None:
    """C4: the node comes back within the session time-out and nobody has to join again."""
    async with running(tmp_path, clock) as broker:
        await broker.topics.create("t", 2, 1)
        joined = await stable(broker.groups)
    clock.advance(SESSION_MS)
    async with running(tmp_path, clock) as broker:
        groups = broker.groups
        groups.heartbeat("g", identity(joined))
        assert groups.find("g").state is State.STABLE
        await groups.commit("g", identity(joined), [Commit("t", 0, 1)])
        sync = Sync(member=identity(joined), assignments={})
        assert (await groups.sync("g", sync)).assignment == b"all"
        clock.advance(SESSION_MS)
        groups.tick()
        assert groups.find("g").state is State.EMPTY
        with pytest.raises(UnknownMember):
            groups.heartbeat("g", identity(joined))


async def test_an_empty_group_goes_on_counting_generations_after_a_restart(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with running(tmp_path, clock) as broker:
        joined = await stable(broker.groups)
        assert await broker.groups.leave("g", [Leaver(member_id=joined.member_id)]) == [None]
        await commit(broker.groups, "g", 1)
    async with running(tmp_path, clock) as broker:
        assert (await stable(broker.groups)).generation == 3


async def test_nothing_is_served_before_the_log_is_read(tmp_path: Path, clock: ManualClock) -> None:
    broker = Broker(tmp_path, SETTINGS, clock, Flusher())
    with pytest.raises(CoordinatorLoading):
        await broker.groups.join("g", join())
    with pytest.raises(CoordinatorLoading):
        broker.groups.committed("g")
    with pytest.raises(CoordinatorLoading):
        broker.groups.groups()
    broker.close()


async def test_clients_that_wait_are_told_when_the_node_stops(
    tmp_path: Path, clock: ManualClock
) -> None:
    """C13: a parked join does not hold up the shutdown."""
    async with running(tmp_path, clock) as broker:
        await stable(broker.groups)
        async with asyncio.TaskGroup() as tasks:
            parked = tasks.create_task(_refused(broker.groups))
            await asyncio.sleep(0)
            broker.groups._stop()
            assert await parked is CoordinatorNotAvailable


async def _refused(groups: GroupCoordinator) -> type[Exception]:
    try:
        await groups.join("g", join())
    except CoordinatorNotAvailable as error:
        return type(error)
    raise AssertionError("the join was answered")


async def test_a_group_is_deleted_with_its_offsets(groups: GroupCoordinator) -> None:
    joined = await stable(groups)
    await groups.commit("g", identity(joined), [Commit("t", 0, 1)])
    with pytest.raises(GroupNotEmpty):
        await groups.delete("g")
    await groups.leave("g", [Leaver(member_id=joined.member_id)])
    await groups.delete("g")
    assert groups.committed("g") == {}
    with pytest.raises(GroupNotFound):
        groups.find("g")
    with pytest.raises(GroupNotFound):
        await groups.delete("g")
    assert (await stable(groups)).generation == 1


async def test_offsets_are_deleted_unless_a_member_reads_the_topic(
    broker: Broker, groups: GroupCoordinator
) -> None:
    """C2: OffsetDelete."""
    await broker.topics.create("old", 1, 1)
    await commit(groups, "g", 1, "t")
    await commit(groups, "g", 1, "old")
    await stable(groups)
    kept, deleted, absent = await groups.delete_offsets("g", [("t", 0), ("old", 0), ("old", 1)])
    assert isinstance(kept, GroupSubscribed)
    assert deleted is None
    assert absent is None
    assert set(groups.committed("g")) == {("t", 0)}
    with pytest.raises(GroupNotFound):
        await groups.delete_offsets("unknown", [("t", 0)])


async def test_offsets_of_a_group_of_another_kind_are_deleted_only_when_it_is_empty(
    groups: GroupCoordinator,
) -> None:
    await groups.join("g", join(protocol_type="connect"))
    with pytest.raises(GroupNotEmpty):
        await groups.delete_offsets("g", [("t", 0)])


async def test_a_deleted_topic_takes_its_offsets_along(
    broker: Broker, groups: GroupCoordinator
) -> None:
    await commit(groups, "g", 9)
    await broker.topics.delete("t")
    await broker.topics.create("t", 2, 1)
    await commit(groups, "other", 1)  # in the log after what the deletion wrote
    await commit(groups, "g", 1, "u")
    assert set(groups.committed("g")) == {("u", 0)}


async def test_offsets_of_a_topic_deleted_just_before_a_crash_go_at_the_next_start(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with running(tmp_path, clock) as broker:
        await broker.topics.create("t", 2, 1)
        await commit(broker.groups, "g", 5)
        broker.topics.on_deleted = None
        await broker.topics.delete("t")
    async with running(tmp_path, clock) as broker:
        await commit(broker.groups, "g", 6, "u")
        assert set(broker.groups.committed("g")) == {("u", 0)}


async def test_offsets_expire_only_in_groups_that_are_not_in_use(
    groups: GroupCoordinator, clock: ManualClock
) -> None:
    """C4: offsets.retention.minutes."""
    day_ms = 86_400_000
    joined = await stable(groups, "busy")
    await groups.commit("busy", identity(joined), [Commit("t", 0, 1), Commit("unread", 0, 1)])
    await commit(groups, "idle", 1)
    clock.advance(7 * day_ms - 1)
    groups.expire_offsets()
    await commit(groups, "late", 1)
    assert set(groups.committed("idle")) == {("t", 0)}
    clock.advance(1)
    groups.expire_offsets()
    for group_id in ("idle", "busy", "late"):
        await written(groups, group_id)
    assert set(groups.committed("busy")) == {("t", 0)}
    assert set(groups.committed("late")) == {("t", 0)}
    with pytest.raises(GroupNotFound):
        groups.find("idle")


async def test_the_retention_of_an_empty_group_begins_when_it_becomes_empty(
    groups: GroupCoordinator, clock: ManualClock
) -> None:
    day_ms = 86_400_000
    joined = await stable(groups)
    await groups.commit("g", identity(joined), [Commit("t", 0, 1)])
    clock.advance(30 * day_ms)
    await groups.leave("g", [Leaver(member_id=joined.member_id)])
    await written(groups, "g")
    groups.expire_offsets()
    await written(groups, "g")
    assert set(groups.committed("g")) == {("t", 0)}


async def test_an_old_clients_own_retention_time_is_kept(
    groups: GroupCoordinator, clock: ManualClock
) -> None:
    await groups.commit("g", OUTSIDER, [Commit("t", 0, 1)], retention_ms=1_000)
    clock.advance(1_000)
    groups.expire_offsets()
    await written(groups, "g")
    assert groups.committed("g") == {}
