"""Proves that a coordinator's log is served and written only in the epoch in which it was read."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from chordmq.broker.internal_log import Host, InternalLog, InternalTopic
from chordmq.broker.partition import Partition
from chordmq.broker.settings import BrokerSettings, TopicSettings
from chordmq.clock import SystemClock
from chordmq.errors import ChordMQError, CoordinatorLoading, NotCoordinator
from chordmq.records.record import NewRecord, build_batch
from tests.broker.replicated import Copies, batch, replicated, until

SETTINGS = TopicSettings(min_insync_replicas=2, flush="os")
TOPIC: InternalTopic[bytes] = InternalTopic(
    name="log",
    settings={},
    partitions=lambda _: 1,
    write=lambda entry: (entry, entry),
    read=lambda key, _: key,
)


class Hosted:
    """What a coordinator needs of a broker, for one copy of one partition."""

    clock = SystemClock()
    settings = BrokerSettings()

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        topic = SimpleNamespace(name="log", partitions=[partition])
        self.topics = SimpleNamespace(
            is_alone=False,
            find=lambda _: topic,
            get=lambda _: topic,
            state=lambda *_: SimpleNamespace(leader=2),
        )

    async def append_records(
        self, _: str, __: int, records: Sequence[NewRecord], *, producer: object = None
    ) -> int:
        appended = self._partition.append(memoryview(build_batch(records)))
        committed = self._partition.committed(appended.next_offset)
        if committed is not None:
            await committed
        return appended.base_offset


class Served:
    """A log as node 1 serves it, and what was read from it."""

    def __init__(self, partition: Partition) -> None:
        self.log = InternalLog(cast(Host, Hosted(partition)), TOPIC)
        self.entries: list[bytes] = []

    async def load(self, index: int) -> None:
        async for found in self.log.replay(index):
            self.entries += found.entries

    def unload(self, _: int) -> None:
        self.entries.clear()

    def is_serving(self) -> bool:
        try:
            self.log.check("a")
        except (CoordinatorLoading, NotCoordinator):
            return False
        return True


@asynccontextmanager
async def served(directory: Path) -> AsyncIterator[tuple[Copies, Served]]:
    """Run three nodes; node 1 leads the log and looks after what is in it."""
    async with replicated(directory, SETTINGS) as copies, asyncio.TaskGroup() as tasks:
        one = Served(copies.nodes[1].partition)
        copies.nodes[1].replicas.on_turned.append(one.log.look_again)
        one.log.open(tasks)
        serving = tasks.create_task(one.log.serve(one.load, one.unload, lambda: None))
        try:
            yield copies, one
        finally:
            one.log.close()
            serving.cancel()


async def test_what_is_not_committed_is_read_but_not_served(tmp_path: Path) -> None:
    """C13: the next leader may lack it, and nobody may have been told."""
    async with served(tmp_path) as (copies, one):
        await until(one.is_serving)
        for broker in (2, 3):
            await copies.isolate(broker)
        copies.nodes[1].partition.append(batch(b"x"))
        await copies.elect(1)
        await until(lambda: len(one.entries) == 1)
        with pytest.raises(CoordinatorLoading):
            one.log.check("a")
        for broker in (2, 3):
            await copies.reconnect(broker)
        await until(one.is_serving)


async def test_what_was_decided_in_one_epoch_is_not_written_in_the_next(tmp_path: Path) -> None:
    """C13: another may have led in between, and decided otherwise."""
    told: list[tuple[str, ChordMQError | None]] = []
    async with served(tmp_path) as (copies, one):
        await until(one.is_serving)
        for broker in (2, 3):
            await copies.isolate(broker)
        partition = copies.nodes[1].partition
        one.log.append("a", [b"1"], lambda error: told.append(("a", error)))
        await until(lambda: partition.log.end_offset == 1)
        one.log.append("b", [b"2"], lambda error: told.append(("b", error)))
        await copies.elect(1)
        await until(lambda: len(told) == 2)
        assert [(name, type(error)) for name, error in told] == [
            ("a", NotCoordinator),
            ("b", NotCoordinator),
        ]
        assert partition.log.end_offset == 1


async def test_a_node_that_leads_no_more_forgets(tmp_path: Path) -> None:
    async with served(tmp_path) as (copies, one):
        await until(one.is_serving)
        written = asyncio.get_running_loop().create_future()
        one.log.append("a", [b"1"], written.set_result)
        assert await written is None
        await copies.elect(1)
        await until(one.is_serving)
        assert one.entries == [b"1"]
        await copies.elect(2)
        await until(lambda: not one.entries)
        with pytest.raises(NotCoordinator) as refused:
            one.log.check("a")
        assert refused.value.node == 2
