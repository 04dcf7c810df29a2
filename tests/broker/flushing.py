"""What a node has of flushing, on a disk that forgets what was not synced."""

import asyncio
import errno
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from chordmq.broker.flusher import Flusher
from chordmq.broker.log_settings import log_settings
from chordmq.broker.partition import Partition
from chordmq.broker.settings import BrokerSettings
from chordmq.broker.shared import Shared
from chordmq.clock import SystemClock
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


@contextmanager
def flushing_node(directory: Path, patch: pytest.MonkeyPatch) -> Iterator[Node]:
    """Give such a node, and end it as a crash would."""
    with disk(directory, clock=SystemClock()) as data:
        node = Node(data, patch)
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
