"""Flushes that a machine refuses, for want of descriptors or because its disk fails.

What a disk has refused once is gone, although a second sync of it succeeds: the kernel tells of a
failure one time only.
"""

import asyncio
import errno
import os
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from chordmq.broker import flusher
from chordmq.broker.partition import Partition
from chordmq.errors import StorageFailed
from chordmq.storage.flush import Flush
from chordmq.storage.journal import Round
from tests.broker.flushing import WAIT_S, Held, Node, fail, flushing_node


@pytest.fixture
async def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Node]:
    with flushing_node(tmp_path, monkeypatch) as opened:
        yield opened


class NoDescriptors:
    """Refuses copies of descriptors a number of times, and counts how often retries are set."""

    def __init__(self, patch: pytest.MonkeyPatch, times: int) -> None:
        self.times_left = times
        self.retries = 0
        self._dup = os.dup
        loop = asyncio.get_running_loop()
        self._call_later = loop.call_later
        patch.setattr(flusher, "RETRY_S", 0.001)
        patch.setattr(os, "dup", self._refuse)
        patch.setattr(loop, "call_later", self._later)

    def _refuse(self, fd: int) -> int:
        if self.times_left:
            self.times_left -= 1
            raise OSError(errno.EMFILE, "too many open files")
        return self._dup(fd)

    def _later(self, delay: float, callback: Callable[..., object], *rest: Any) -> Any:
        self.retries += delay == flusher.RETRY_S
        return self._call_later(delay, callback, *rest)


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


async def test_partitions_that_find_no_free_descriptor_are_tried_again_together(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C11: one timer for all, or they would multiply: each retry would set one for each of them."""
    await node.write_all()
    with monkeypatch.context() as patch:
        machine = NoDescriptors(patch, times=24)
        waiting = [node.write(one) for one in node.partitions[:4]]
        await asyncio.wait_for(asyncio.gather(*waiting), WAIT_S)
    assert machine.times_left == 0
    assert machine.retries <= 24 // 4 + 1


async def test_settlings_that_find_no_free_descriptor_are_tried_again_together(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C11: the same for what the journal turns away from."""
    await node.open_journal()
    await node.write_all(times=2)
    owing = node.partitions[:4]
    with monkeypatch.context() as patch:
        machine = NoDescriptors(patch, times=24)
        settled = asyncio.Event()
        patch.setattr(owing[-1], "flushed", settled.set)
        node.flusher._owing.update(dict.fromkeys(owing))
        node.flusher._start()
        await asyncio.wait_for(settled.wait(), WAIT_S)
    assert machine.times_left == 0
    assert machine.retries <= 24 // 4 + 1


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_a_flush_that_is_refused_keeps_no_descriptor(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C11: it needs two, and one is left; whoever gives one back must not find it gone as well."""
    one = node.partitions[0]
    await node.write_all(partitions=[one])
    one.log._roll()
    before = _descriptors()
    copy, copies = os.dup, list[int]()

    def refuse_second(fd: int) -> int:
        if len(copies) % 2:
            copies.append(-1)
            raise OSError(errno.EMFILE, "too many open files")
        copies.append(copy(fd))
        return copies[-1]

    with monkeypatch.context() as patch:
        patch.setattr(os, "dup", refuse_second)
        for _ in range(5):
            with pytest.raises(OSError, match="too many"):
                one.log.begin_flush()
    assert _descriptors() == before


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


async def _settle_on_a_failing_disk(node: Node, one: Partition, patch: pytest.MonkeyPatch) -> None:
    """Have the disk refuse a settling, of which the loop does not hear yet."""
    held = Held(patch, Flush, "sync")
    while not held.begun.is_set():
        await node.write_all(partitions=[one])
    failed, refused = threading.Event(), set[int]()
    sync = os.fdatasync

    def fdatasync(fd: int) -> None:
        number = os.fstat(fd).st_ino
        if not failed.is_set():
            refused.add(number)
            failed.set()
            raise OSError(errno.EIO, "input/output error")
        if number not in refused:
            sync(fd)

    patch.setattr(os, "fdatasync", fdatasync)
    held.let_go()
    assert failed.wait(WAIT_S)  # without a turn of the loop


async def test_a_cut_behind_a_settling_that_failed_ends_the_node(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D5: only the journal has what was refused, and the cut would have it forgotten."""
    await node.open_journal()
    one = node.partitions[0]
    with monkeypatch.context() as patch:
        await _settle_on_a_failing_disk(node, one, patch)
        with pytest.raises(StorageFailed):
            one.cut(one.log.end_offset - 1)
        node.acknowledged[one.log.name].pop()
    assert node.faults
    assert node.survives_power_cut()


async def test_a_stop_behind_a_settling_that_failed_leaves_the_journal(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D5: the next start brings to the files what the disk has refused."""
    await node.open_journal()
    one = node.partitions[0]
    with monkeypatch.context() as patch:
        await _settle_on_a_failing_disk(node, one, patch)
        node.flusher.close()
        with pytest.raises(StorageFailed):
            one.close()
    assert node.survives_power_cut()
