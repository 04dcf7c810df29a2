"""Readers that wait for a slow disk: what the tests of all fronts need to see of them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from chordmq.broker.broker import Broker
from chordmq.broker.partition import Partition
from chordmq.broker.settings import BrokerSettings
from chordmq.clock import SystemClock
from chordmq.fronts.listener import Listener
from chordmq.records.record import NewRecord
from tests.broker.running_broker import running

NOTHING_IN_MEMORY = BrokerSettings(log_memory_max_bytes=0)
PATIENCE_S = 60
TURNS = 200

Tasks = set[asyncio.Task[object]]


class Looks:
    """Counts how often readers ask whether there is something, or whether the disk has it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        awaits_disk, readable = Partition.awaits_disk, Partition.readable

        def counted(partition: Partition, offset: int, max_bytes: int) -> bool:
            self.count += 1
            return awaits_disk(partition, offset, max_bytes)

        def counted_too(partition: Partition, offset: int) -> bool:
            self.count += 1
            return readable(partition, offset)

        monkeypatch.setattr(Partition, "awaits_disk", counted)
        monkeypatch.setattr(Partition, "readable", counted_too)

    async def in_many_turns(self) -> int:
        """Return how often they ask in so many turns of the event loop in which nothing happens."""
        await turns()
        before = self.count
        await turns()
        return self.count - before


async def turns() -> None:
    """Let everybody else do what they can do without the disk."""
    for _ in range(TURNS):
        await asyncio.sleep(0)


async def written(broker: Broker, *values: bytes, topic: str = "t", partition: int = 0) -> None:
    """Store each value as a batch of its own."""
    for value in values:
        record = NewRecord(SystemClock().now_ms(), None, value)
        await broker.append_records(topic, partition, [record])


@asynccontextmanager
async def cold_broker(directory: Path, values: Iterable[bytes]) -> AsyncIterator[Broker]:
    """Run a broker that keeps nothing in memory, with old records in "t" and an empty "u"."""
    async with running(directory, SystemClock(), NOTHING_IN_MEMORY) as broker:
        await broker.topics.create("t", 1)
        await broker.topics.create("u", 1)
        await written(broker, *values)
        yield broker


async def waiting(broker: Broker, times: int = 1) -> None:
    """Wait until the disk is waited for."""
    async with asyncio.timeout(PATIENCE_S):
        while broker.shared.read_ahead.fetched < times:  # noqa: ASYNC110 - nobody says when
            await asyncio.sleep(0)


def fetched_for_somebody_else(broker: Broker, topic: str = "t") -> None:
    """Have the first records brought into memory for a reader of another kind."""
    log = broker.partition(topic, 0).log
    broker.shared.read_ahead.prepare(log, 0, 1 << 20, log.end_offset)
    assert broker.shared.read_ahead.fetched == 1


async def over(tasks: Iterable[asyncio.Task[object]]) -> None:
    """Wait until no tasks run but those there were."""
    async with asyncio.timeout(PATIENCE_S):
        while asyncio.all_tasks() - set(tasks):  # noqa: ASYNC110 - nobody says when
            await asyncio.sleep(0)


@asynccontextmanager
async def listening(
    listener: Listener, connect: Callable[[], asyncio.BaseProtocol]
) -> AsyncIterator[None]:
    """Serve clients until the end of the test."""
    await listener.open(connect)
    running = asyncio.ensure_future(listener.run())
    await turns()
    try:
        yield
    finally:
        await listener.close(0)
        await running
