"""Proves that copies of a partition on several nodes become and stay equal."""

import asyncio
from pathlib import Path

import pytest

from chordmq.broker.replicas import Replicas
from chordmq.broker.settings import TopicSettings
from chordmq.errors import DiskFull, NotEnoughReplicas, NotLeader, OffsetNotAvailable
from chordmq.records.record import NewRecord, build_batch
from chordmq.storage import segment
from tests.broker.replicated import MEMORY, TOPIC_ID, CopyNode, batch, replicated, until

SETTINGS = TopicSettings(min_insync_replicas=2)


async def append(node: CopyNode, *values: bytes) -> None:
    appended = node.partition.append(batch(*values))
    committed = node.partition.committed(appended.next_offset)
    if committed is not None:
        async with asyncio.timeout(60):
            await committed


async def test_what_is_committed_is_on_the_disk_of_every_in_sync_copy(tmp_path: Path) -> None:
    async with replicated(tmp_path, SETTINGS) as copies:
        for number in range(50):
            await append(copies.nodes[1], b"%d" % number)
            for node in copies.nodes.values():
                assert node.partition.log.flushed_offset >= number + 1
        expected = [b"%d" % number for number in range(50)]
        for node in copies.nodes.values():
            await until(lambda node=node: node.partition.high_watermark == 50)  # type: ignore[misc]
            assert node.values() == expected


async def test_many_batches_at_once_arrive_in_their_order(tmp_path: Path) -> None:
    async with replicated(tmp_path, SETTINGS) as copies:
        leader = copies.nodes[1]
        values = [b"%d" % number * 100 for number in range(3_000)]
        for first in range(0, len(values), 10):
            leader.partition.append(batch(*values[first : first + 10]))
        await until(lambda: leader.partition.high_watermark == len(values))
        follower = copies.nodes[3]
        await until(lambda: follower.partition.high_watermark == len(values))
        assert follower.partition.log.size == leader.partition.log.size


async def test_retention_leaves_what_followers_do_not_have_yet(tmp_path: Path) -> None:
    """A lagging follower finds all that is not committed; the rest goes as settings say."""
    tiny = TopicSettings(min_insync_replicas=2, segment_bytes=1024, retention_bytes=0)
    async with replicated(tmp_path, tiny) as copies:
        partition, log = copies.nodes[1].partition, copies.nodes[1].partition.log
        for _ in range(3):
            await append(copies.nodes[1], b"a" * 1_000)
        for broker in (2, 3):
            await copies.isolate(broker)
        for _ in range(3):
            partition.append(batch(b"b" * 1_000))
        await until(lambda: log.flushed_offset == 6)
        log.maintain(partition.high_watermark)
        assert (partition.high_watermark, log.start_offset) == (3, 3)
        for broker in (2, 3):
            await copies.reconnect(broker)
        await until(lambda: partition.high_watermark == 6)
        log.maintain(partition.high_watermark)
        assert log.start_offset == 6


async def test_only_the_leader_takes_records(tmp_path: Path) -> None:
    async with replicated(tmp_path, SETTINGS) as copies:
        with pytest.raises(NotLeader, match="node 1 leads"):
            copies.nodes[2].partition.append(batch(b"x"))
        await append(copies.nodes[1], b"a")
        await copies.elect(2)
        with pytest.raises(NotLeader):
            copies.nodes[1].partition.append(batch(b"x"))
        await append(copies.nodes[2], b"b")
        await until(lambda: copies.nodes[1].partition.high_watermark == 2)
        assert copies.nodes[1].values() == [b"a", b"b"]


async def test_a_deposed_leader_gives_up_what_the_new_one_never_had(tmp_path: Path) -> None:
    """KIP-101: the logs part, and become equal again."""
    async with replicated(tmp_path, SETTINGS) as copies:
        await append(copies.nodes[1], b"a")
        await copies.isolate(1)
        lonely = copies.nodes[1].partition.append(batch(b"lost"))
        waiting = copies.nodes[1].partition.committed(lonely.next_offset)
        assert waiting is not None
        await copies.elect(2)
        with pytest.raises(NotLeader):
            await waiting
        await copies.change(isr=(2, 3))
        await append(copies.nodes[2], b"b")
        await copies.reconnect(1)
        await until(lambda: copies.nodes[1].partition.high_watermark == 2)
        assert copies.nodes[1].values() == [b"a", b"b"]


async def test_a_copy_that_catches_up_joins_the_in_sync_set(tmp_path: Path) -> None:
    async with replicated(tmp_path, SETTINGS) as copies:
        await copies.change(isr=(1, 2))
        async with asyncio.timeout(60):
            while (await copies.state()).isr != (1, 2, 3):  # noqa: ASYNC110 - nobody tells when
                await asyncio.sleep(0.05)
        assert copies.nodes[1].partition.replica is not None
        state = copies.nodes[1].partition.replica.state
        assert state is not None
        assert state.isr == (1, 2, 3)


async def test_a_copy_catches_up_with_what_only_the_disk_of_the_leader_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D2: the leader serves others while a thread waits for its disk."""
    monkeypatch.setattr(segment, "is_cached", lambda fd, position: False)
    values = [b"%d" % number * 50_000 for number in range(20)]
    async with replicated(tmp_path, SETTINGS) as copies:
        leader, late = copies.nodes[1], copies.nodes[3]
        await copies.change(isr=(1, 2))
        await copies.isolate(3)
        for value in values:
            await append(leader, value)
        assert leader.partition.log.size > MEMORY
        await copies.reconnect(3)
        await until(lambda: late.partition.high_watermark == len(values))
        copied, original = (b"".join(one.partition.log.read(0, 1 << 24)) for one in (late, leader))
        assert copied == original
    assert leader.shared.read_ahead.fetched


async def test_a_copy_that_is_silent_for_too_long_leaves_the_set(tmp_path: Path) -> None:
    async with replicated(tmp_path, SETTINGS) as copies:
        leader = copies.nodes[1]
        assert leader.partition.replica is not None
        leader.replicas.rules_lag_max_s = 4.0
        leader.partition.replica.set_min_in_sync(2)
        await copies.isolate(3)
        await append(leader, b"a")
        assert (await copies.state()).isr == (1, 2)


async def test_too_few_in_sync_copies_refuse_writes_and_keep_them_eligible(tmp_path: Path) -> None:
    async with replicated(tmp_path, SETTINGS) as copies:
        await copies.isolate(2)
        await copies.isolate(3)
        await copies.change(isr=(1,))
        with pytest.raises(NotEnoughReplicas):
            copies.nodes[1].partition.append(batch(b"x"))
        copies.nodes[1].partition.append(batch(b"acks=1"), is_quorum_needed=False)
        assert copies.nodes[1].partition.high_watermark == 0


async def test_a_leader_without_its_lease_acknowledges_nothing(tmp_path: Path) -> None:
    async with replicated(tmp_path, SETTINGS) as copies:
        leader = copies.nodes[1]
        appended = leader.partition.append(batch(b"a"))
        leader.replicas.lease.until_s = 0.0
        committed = leader.partition.committed(appended.next_offset)
        assert committed is not None
        await until(lambda: copies.nodes[2].partition.log.end_offset == 1)
        await asyncio.wait([committed], timeout=0.5)
        assert not committed.done()
        with pytest.raises(NotLeader, match="lease"):
            leader.partition.append(batch(b"b"))
        leader.replicas.lease.until_s = float("inf")
        await committed


async def test_a_copy_whose_records_the_leader_dropped_begins_where_the_leader_begins(
    tmp_path: Path,
) -> None:
    async with replicated(tmp_path, SETTINGS) as copies:
        await append(copies.nodes[1], b"a", b"b")
        await copies.isolate(3)
        await copies.change(isr=(1, 2))
        await append(copies.nodes[1], b"c")
        await copies.nodes[1].partition.delete_records(3)
        await append(copies.nodes[1], b"d")
        await copies.reconnect(3)
        await until(lambda: copies.nodes[3].partition.high_watermark == 4)
        assert copies.nodes[3].partition.log.start_offset == 3
        assert copies.nodes[3].values() == [b"d"]


async def test_producers_are_known_to_whoever_leads_next(tmp_path: Path) -> None:
    """C2: a batch sent again to the new leader is recognised."""
    async with replicated(tmp_path, SETTINGS) as copies:
        data = build_batch([NewRecord(0, None, b"a")], producer_id=7, epoch=0, sequence=0)
        first = copies.nodes[1].partition.append(memoryview(bytearray(data)))
        committed = copies.nodes[1].partition.committed(first.next_offset)
        assert committed is not None
        await committed
        await copies.elect(3)
        again = copies.nodes[3].partition.append(memoryview(bytearray(data)))
        assert again.base_offset == first.base_offset
        assert copies.nodes[3].partition.log.end_offset == 1


async def test_a_copy_says_that_it_cannot_know_what_lies_behind_its_end(tmp_path: Path) -> None:
    """C17: a reader of the nearest copy is never sent back to the start (KIP-392)."""
    async with replicated(tmp_path, SETTINGS) as copies:
        await append(copies.nodes[1], b"a")
        with pytest.raises(OffsetNotAvailable):
            copies.nodes[2].partition.read(5, 1000)


async def test_what_was_committed_stays_readable_over_a_restart(tmp_path: Path) -> None:
    async with replicated(tmp_path, SETTINGS) as copies:
        for node in copies.nodes.values():
            node.replicas.open(tmp_path / str(node.broker))
        await append(copies.nodes[1], b"a", b"b")
        copies.nodes[1].replicas.save()
        again = Replicas(1, copies.nodes[1].clock, copies.nodes[1]._find)
        again.open(tmp_path / "1")
        partition = copies.nodes[1].partition
        partition.high_watermark = 0
        again.on_state(TOPIC_ID, 0, await copies.state(), 0)
        assert partition.high_watermark == 2


async def test_a_leader_whose_disk_is_full_lets_another_lead(tmp_path: Path) -> None:
    """Reads and writes go on where there is room."""
    async with replicated(tmp_path, SETTINGS) as copies:
        await append(copies.nodes[1], b"a")
        copies.nodes[1].shared.full = "no room"
        with pytest.raises(DiskFull):
            copies.nodes[1].partition.append(batch(b"b"))
        await until(lambda: not copies.nodes[1].partition.is_leader)
        state = await copies.state()
        assert (state.leader in (2, 3), state.leader_epoch) == (True, 1)
        await copies.change(isr=(2, 3))
        await append(copies.nodes[state.leader], b"b")


async def test_the_lag_of_followers_is_measured(tmp_path: Path) -> None:
    async with replicated(tmp_path, SETTINGS) as copies:
        await append(copies.nodes[1], b"a")
        await copies.isolate(3)
        copies.nodes[1].partition.append(batch(b"b", b"c"))
        values = {one.name: one for one in copies.nodes[1].replicas.measures()}
        assert values["chordmq_replica_lag_records"].samples == [({}, 2)]
