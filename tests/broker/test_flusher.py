"""Group commit on real files: flushes are shared, and none of them is forgotten."""

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from chordmq.broker.flusher import Flusher
from chordmq.broker.log_settings import log_settings
from chordmq.broker.partition import Partition
from chordmq.broker.settings import BrokerSettings
from chordmq.broker.shared import Shared
from chordmq.clock import SystemClock
from chordmq.records.record import NewRecord, build_batch
from chordmq.storage.flush import Flush
from chordmq.storage.log import Log
from tests.storage.logs import disk

SETTINGS = BrokerSettings().topic_defaults().with_texts({"flush": "disk"})


class Faults:
    """Takes note of what ends the node elsewhere."""

    def __init__(self) -> None:
        self.first: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

    def add(self, fault: BaseException) -> None:
        if not self.first.done():
            self.first.set_result(fault)


@pytest.fixture
async def faults() -> Faults:
    return Faults()


@pytest.fixture
async def flusher(faults: Faults) -> AsyncIterator[Flusher]:
    flusher = Flusher(faults.add)
    yield flusher
    flusher.close()


@pytest.fixture
def partition(tmp_path: Path, flusher: Flusher) -> Iterator[Partition]:
    clock = SystemClock()
    with disk(tmp_path, clock=clock) as data:
        log = Log(tmp_path / "t-0", log_settings(SETTINGS), clock, data.tail, data.catalogue)
        yield Partition("t", 0, log, SETTINGS, Shared(flusher, clock))
        log.abandon()


def write(partition: Partition) -> asyncio.Future[None]:
    """Append one record, and return what acks=all waits for."""
    record = NewRecord(SystemClock().now_ms(), None, b"x")
    appended = partition.append(memoryview(build_batch([record])))
    committed = partition.committed(appended.next_offset)
    assert committed is not None
    return committed


async def test_writes_of_one_moment_share_a_flush(partition: Partition, flusher: Flusher) -> None:
    """D5: group commit."""
    await asyncio.gather(*(write(partition) for _ in range(100)))
    assert flusher.flushes == 1
    assert partition.high_watermark == 100


@pytest.mark.parametrize("fault", [OSError(errno.EIO, "input/output error"), ValueError("a bug")])
async def test_nothing_is_acknowledged_after_a_failed_flush(
    partition: Partition, faults: Faults, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    """D5: whatever went wrong, the node stops instead of letting producers wait for ever."""

    def fail(_: Flush) -> None:
        raise fault

    monkeypatch.setattr(Flush, "sync", fail)
    committed = write(partition)
    assert await asyncio.wait_for(faults.first, 60) is fault
    assert not committed.done()
    assert partition.high_watermark == 0


async def test_a_flush_that_finds_no_free_descriptor_is_tried_again(
    partition: Partition, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D5: a node out of descriptors acknowledges later, not never."""
    with monkeypatch.context() as patch:
        refused = asyncio.Event()

        def refuse(_: int) -> int:
            refused.set()
            raise OSError(errno.EMFILE, "too many open files")

        patch.setattr(os, "dup", refuse)
        committed = write(partition)
        await asyncio.wait_for(refused.wait(), 60)
    await asyncio.wait_for(committed, 60)
    assert not faults.first.done()
