"""Flushes that share a round of the journal: all are acknowledged, and none is lost.

Each test ends with a power cut: the files of the logs lose what was not synced, and a start must
find every acknowledged record. The flusher opens the journal itself, as it does in a node.
"""

import asyncio
import shutil
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from chordmq.broker import flusher
from chordmq.broker.flusher import SMALL_BYTES
from chordmq.broker.partition import Partition
from chordmq.storage import journal
from chordmq.storage.flush import Flush
from chordmq.storage.journal import Round
from tests.broker.flushing import PARTITIONS, WAIT_S, Held, Node, flushing_node


@pytest.fixture
async def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Node]:
    with flushing_node(tmp_path, monkeypatch) as opened:
        yield opened


async def test_the_journal_is_made_only_where_flushes_follow_each_other(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D5: a node that writes now and then has no use for it; one busy partition has."""
    with monkeypatch.context() as patch:
        patch.setattr(flusher, "FOLLOWS_S", 0)  # so that each flush comes late
        for _ in range(40):
            await node.write_all(partitions=node.partitions[:1])
        assert not node.journal.is_open
    await node.open_journal(node.partitions[:1])
    assert node.faults == []
    assert node.survives_power_cut()


async def test_a_partition_is_written_and_acknowledged_while_it_is_settled(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D5: what the journal has already is nobody's to wait for; a power cut then loses nothing."""
    await node.open_journal()
    one = node.partitions[:1]
    with monkeypatch.context() as patch:
        held = Held(patch, Flush, "sync")
        while not held.begun.is_set():
            await node.write_all(partitions=one)
        done = node.flusher.rounds
        await node.write_all(times=3, partitions=one)
        assert node.flusher.rounds == done + 3
        held.let_go()
    await node.write_until_rounds_after(node.flusher.rounds, one)
    assert node.faults == []
    assert node.survives_power_cut()


async def test_a_large_write_waits_for_its_log_to_be_settled(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D5: a log has one flush to its own files at a time."""
    await node.open_journal()
    one = node.partitions[0]
    with monkeypatch.context() as patch:
        held = Held(patch, Flush, "sync")
        while not held.begun.is_set():
            await node.write_all(partitions=[one])
        large = node.write(one, 2 * SMALL_BYTES)
        await node.write_all(times=2, partitions=node.partitions[1:3])
        assert not large.done()
        held.let_go()
    await asyncio.wait_for(large, WAIT_S)
    assert node.faults == []
    assert node.survives_power_cut()


async def test_a_partition_is_deleted_while_it_is_settled_and_in_a_round(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D5: both are waited for, whichever ends first."""
    await node.open_journal()
    gone = node.partitions[0]
    with monkeypatch.context() as patch:
        settling = Held(patch, Flush, "sync")
        while not settling.begun.is_set():
            await node.write_all(partitions=[gone])
        writing = Held(patch, Round, "write")
        waiting = node.write(gone)
        await asyncio.wait_for(writing.begun.wait(), WAIT_S)
        settled = asyncio.Event()
        patch.setattr(gone, "flushed", settled.set)
        async with asyncio.TaskGroup() as tasks:
            discarded = tasks.create_task(gone.discard())
            settling.let_go()
            await asyncio.wait_for(settled.wait(), WAIT_S)
            assert not discarded.done()
            writing.let_go()
    assert waiting.cancelled()
    shutil.rmtree(gone.log.directory)
    node.partitions[0] = node.open(0)
    await node.write_all(times=20)
    assert node.faults == []
    assert node.survives_power_cut()


async def test_small_writes_of_many_partitions_share_a_round(node: Node) -> None:
    """D5: group commit, of all logs together."""
    await node.open_journal()
    done, flushes = node.flusher.rounds, node.flusher.flushes
    await node.write_all()
    assert node.flusher.rounds == done + 1
    assert node.flusher.flushes == flushes + PARTITIONS
    assert node.survives_power_cut()


async def test_a_large_flush_goes_to_the_files_of_its_log(node: Node) -> None:
    """D5: the journal is for what takes longer to sync than to write."""
    await node.open_journal()
    await node.write_all()
    done = node.flusher.rounds
    await asyncio.wait_for(node.write(node.partitions[0], SMALL_BYTES), WAIT_S)
    assert node.flusher.rounds == done
    await node.write_all()
    assert node.survives_power_cut()


async def test_a_full_file_is_settled_and_written_again_while_producers_go_on(node: Node) -> None:
    """D5: the journal turns many times, and nobody waits for ever."""
    await node.open_journal()
    await node.write_until_rounds_after(20)
    assert node.faults == []
    assert node.survives_power_cut()


async def test_producers_of_few_and_of_many_records_do_not_hold_each_other_up(node: Node) -> None:
    """D5: small and large writes, each partition at its own pace, over many turns."""
    await node.open_journal()

    async def produce(partition: Partition, size: int) -> None:
        for _ in range(40):
            await asyncio.wait_for(node.write(partition, size), WAIT_S)

    sizes = [8, 8, 8, 100, 900, 3000, 5000, SMALL_BYTES]
    await asyncio.gather(*map(produce, node.partitions, sizes))
    assert node.flusher.rounds > 10
    assert node.faults == []
    assert node.survives_power_cut()


async def test_logs_that_write_no_more_are_settled_all_the_same(node: Node) -> None:
    """D5: a file is written again only when even the idle logs have what it holds."""
    await node.open_journal()
    await node.write_all()
    last = node.flusher.rounds
    await node.write_until_rounds_after(last, node.partitions[:2])
    assert not any(partition.log.owes(last) for partition in node.partitions[2:])
    assert node.survives_power_cut()


async def test_a_partition_is_deleted_while_its_round_is_under_way(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D5: the round is waited for, and a namesake has nothing of it."""
    await node.open_journal()
    gone = node.partitions[0]
    with monkeypatch.context() as patch:
        held = Held(patch, Round, "write")
        waiting = [node.write(partition) for partition in node.partitions]
        await asyncio.wait_for(held.begun.wait(), WAIT_S)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(gone.discard())
            tasks.create_task(asyncio.to_thread(held.let_go))
        await asyncio.wait_for(asyncio.gather(*waiting[1:]), WAIT_S)
    assert waiting[0].cancelled()
    shutil.rmtree(gone.log.directory)
    node.partitions[0] = node.open(0)
    await node.write_all(times=20)
    assert node.faults == []
    assert node.survives_power_cut()


async def test_none_is_settled_any_more_that_was_given_up(node: Node) -> None:
    """D5: a turn of the journal may begin to settle it just as its last flush ends."""
    await node.open_journal()
    gone, other = node.partitions[:2]
    for _ in range(100):
        waiting = [node.write(gone, 300)]
        await asyncio.sleep(0)  # its round begins
        await asyncio.sleep(0)
        waiting.append(node.write(other, 900))
        gone.is_closed = True
        await node.flusher.finished(gone)
        assert gone not in node.flusher._in_files
        assert gone not in node.flusher._in_round
        gone.is_closed = False
        node.flusher.request(gone)
        await asyncio.wait_for(asyncio.gather(*waiting), WAIT_S)
    assert node.faults == []


async def test_partitions_deleted_while_they_wait_to_be_settled_hold_nobody_up(
    node: Node,
) -> None:
    """D5: the journal turns without them."""
    await node.open_journal()
    for index in range(PARTITIONS):
        await node.write_all(times=5)
        gone = node.partitions[index]
        await gone.discard()
        shutil.rmtree(gone.log.directory)
        node.partitions[index] = node.open(index)
    await node.write_all(times=20)
    assert node.faults == []
    assert node.survives_power_cut()


def _cut(partition: Partition) -> None:
    partition.cut(partition.log.end_offset - 1)


def _restart(partition: Partition) -> None:
    partition.restart(partition.log.end_offset)


@pytest.mark.parametrize("change", [_cut, _restart])
async def test_a_log_is_cut_while_its_round_is_under_way(
    node: Node, monkeypatch: pytest.MonkeyPatch, change: Callable[[Partition], None]
) -> None:
    """D5: what the round has of it is void, and what is written in its place is kept."""
    await node.open_journal()
    await node.write_all(times=3)
    one = node.partitions[0]
    with monkeypatch.context() as patch:
        held = Held(patch, Round, "write")
        waiting = [node.write(partition) for partition in node.partitions]
        await asyncio.wait_for(held.begun.wait(), WAIT_S)
        waiting[0].cancel()
        change(one)
        if change is _restart:
            node.acknowledged[one.log.name].clear()
        waiting.append(node.write(one))
        held.let_go()
        await asyncio.wait_for(asyncio.gather(*waiting[1:]), WAIT_S)
    await node.write_all(times=20)
    assert node.faults == []
    assert node.survives_power_cut()


async def test_a_clean_stop_leaves_no_journal_and_every_record(node: Node) -> None:
    """D5: what only the journal had is brought to the logs' own files before it goes."""
    await node.open_journal()
    await node.write_all(times=3)
    node.flusher.close()
    for partition in node.partitions:
        partition.close()
    node.journal.close()
    assert not any((node.data.root / name).exists() for name in journal.NAMES)
    assert node.survives_power_cut()


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    yield
    assert not [one for one in threading.enumerate() if one.name.startswith("flush")]
