"""Flushes that share a round of the journal: all are acknowledged, and none is lost.

Each test ends with a power cut: the files of the logs lose what was not synced, and a start must
find every acknowledged record. The flusher opens the journal itself, as it does in a node.
"""

import asyncio
import errno
import os
import shutil
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path

import pytest

from chordmq.broker import flusher
from chordmq.broker.flusher import SMALL_BYTES, Flusher
from chordmq.broker.log_settings import log_settings
from chordmq.broker.partition import Partition
from chordmq.broker.settings import BrokerSettings
from chordmq.broker.shared import Shared
from chordmq.clock import SystemClock
from chordmq.errors import StorageFailed
from chordmq.records.record import NewRecord, build_batch
from chordmq.storage import journal
from chordmq.storage.flush import Flush
from chordmq.storage.journal import Round, rounds
from tests.storage.logs import Disk, crash, disk, everything

SETTINGS = BrokerSettings().topic_defaults().with_texts({"flush": "disk"})
PARTITIONS = 8
HALF_BYTES = 4096
"""Of the journal: a few rounds fill it."""
WAIT_S = 60


class Node:
    """What a node has of flushing: partitions, a flusher, a journal, and a disk that forgets."""

    def __init__(self, data: Disk, patch: pytest.MonkeyPatch) -> None:
        self.data = data
        self.faults: list[BaseException] = []
        self.acknowledged: dict[str, list[bytes]] = {}
        self._synced: dict[int, int] = {}
        self._fdatasync = os.fdatasync
        self._written = 0
        patch.setattr(os, "fdatasync", self._sync)
        self.flusher = Flusher(self.faults.append)
        self.journal = journal.opened(data.root, data.root, data.catalogue, HALF_BYTES)
        data.journal = self.journal
        self.partitions = [self.open(index) for index in range(PARTITIONS)]

    def open(self, index: int) -> Partition:
        """Open a partition, whose records are those that it has from now on."""
        self.acknowledged[f"t-{index}"] = []
        log = self.data.log(log_settings(SETTINGS), f"t-{index}")
        return Partition("t", index, log, SETTINGS, Shared(self.flusher, self.data.clock))

    def write(self, partition: Partition, size: int = 8) -> asyncio.Future[None]:
        """Append one record, and return what acks=all waits for."""
        value = b"%08d" % self._written + b"." * (size - 8)
        self._written += 1
        record = NewRecord(self.data.clock.now_ms(), None, value)
        appended = partition.append(memoryview(build_batch([record])))
        committed = partition.committed(appended.next_offset)
        assert committed is not None
        name = partition.log.name

        def note(done: asyncio.Future[None]) -> None:
            if not done.cancelled():
                self.acknowledged[name].append(value)

        committed.add_done_callback(note)
        return committed

    async def write_all(self, times: int = 1, partitions: Sequence[Partition] = ()) -> None:
        """Write to all partitions at one moment, and wait until all is acknowledged; repeat."""
        for _ in range(times):
            waiting = [self.write(one) for one in partitions or self.partitions]
            await asyncio.wait_for(asyncio.gather(*waiting), WAIT_S)

    async def open_journal(self, partitions: Sequence[Partition] = ()) -> None:
        """Write until the flusher has opened the journal, and has the logs go there."""
        async with asyncio.timeout(WAIT_S):
            while not self.journal.is_open:
                await self.write_all(partitions=partitions)
        self.data.catalogue.journal_rounds()  # waits until it knows all logs

    async def write_until_rounds_after(
        self, last: int, partitions: Sequence[Partition] = ()
    ) -> None:
        """Write until no round up to this one is left in either of the journal's files."""
        async with asyncio.timeout(WAIT_S):
            while not all(found and found[0] > last for found in self.numbers()):
                await self.write_all(partitions=partitions)

    def numbers(self) -> list[list[int]]:
        """Return the numbers of the rounds in each of the journal's files."""
        paths = [self.data.root / name for name in journal.NAMES]
        return [[number for number, _ in rounds(path.read_bytes())] for path in paths]

    def survives_power_cut(self) -> bool:
        """Take from the disk what was not synced, start again, and look for what was promised."""
        self.flusher.close()
        for partition in self.partitions:
            crash(partition.log)
            for path in partition.log.directory.glob("*.log"):
                os.truncate(path, self._synced.get(path.stat().st_ino, 0))
        self.data.open_journal(HALF_BYTES)
        return all(self._has(partition.log.name) for partition in self.partitions)

    def _has(self, name: str) -> bool:
        log = self.data.log(log_settings(SETTINGS), name)
        found = [record.value for record in everything(log)]
        crash(log)
        return found[: len(self.acknowledged[name])] == self.acknowledged[name]

    def _sync(self, fd: int) -> None:
        status = os.fstat(fd)
        self._fdatasync(fd)
        self._synced[status.st_ino] = status.st_size


@pytest.fixture
async def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Node]:
    with disk(tmp_path, clock=SystemClock()) as data:
        node = Node(data, monkeypatch)
        yield node
        node.flusher.close()
        for partition in node.partitions:
            crash(partition.log)


class Held:
    """Holds rounds of the journal, or flushes to the files of logs, back until they are let go."""

    def __init__(self, patch: pytest.MonkeyPatch, work: type[Round | Flush], name: str) -> None:
        self.begun = asyncio.Event()
        self._go = threading.Event()
        self._loop = asyncio.get_running_loop()
        do = getattr(work, name)

        def held(one: Round | Flush) -> None:
            self._loop.call_soon_threadsafe(self.begun.set)
            assert self._go.wait(WAIT_S)
            do(one)

        patch.setattr(work, name, held)

    def let_go(self) -> None:
        self._go.set()


def fail(*_: object) -> None:
    raise OSError(errno.EIO, "input/output error")


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


async def test_a_settling_that_finds_no_free_descriptor_is_tried_again(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D5: a node out of descriptors turns later, and acknowledges meanwhile what it can."""
    await node.open_journal()
    refused = asyncio.Event()

    def refuse(_: int) -> int:
        refused.set()
        raise OSError(errno.EMFILE, "too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(os, "dup", refuse)
        waiting: list[asyncio.Future[None]] = []
        async with asyncio.timeout(WAIT_S):
            while not refused.is_set():
                waiting += [node.write(partition) for partition in node.partitions]
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.wait_for(asyncio.gather(*waiting), WAIT_S)
    await node.write_all(times=20)
    assert node.faults == []
    assert node.survives_power_cut()


@pytest.mark.parametrize("fault", [OSError(errno.EIO, "input/output error"), ValueError("a bug")])
async def test_a_failed_write_of_the_journal_loses_nothing(
    node: Node, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    """D5: logs are flushed one by one from then on, also what earlier rounds have of them."""

    def refuse(_: Round) -> None:
        raise fault

    await node.open_journal()
    await node.write_all(times=3)
    with monkeypatch.context() as patch:
        patch.setattr(Round, "write", refuse)
        await node.write_all()
    done, written = node.flusher.rounds, node.numbers()
    await node.write_all(times=40)
    assert not node.journal.is_open
    assert (node.flusher.rounds, node.numbers()) == (done, written)
    assert node.faults == []
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


async def test_a_cut_whose_sync_fails_ends_the_node(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D5: a second sync would say that the disk has what it has not, and the journal forget it."""
    await node.open_journal()
    await node.write_all(times=3)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fail)
        with pytest.raises(StorageFailed):
            node.partitions[0].cut(node.partitions[0].log.end_offset - 1)
    assert [type(fault) for fault in node.faults] == [StorageFailed]


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
