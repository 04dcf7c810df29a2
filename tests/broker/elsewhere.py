"""One partition that node 1 leads, and nodes without a copy that read it over real links."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec.structs import replace

from chordmq.broker.absent import AbsentPartition
from chordmq.broker.feed import Feed
from chordmq.broker.flusher import Flusher
from chordmq.broker.partition import Partition
from chordmq.broker.remote_reads import RemoteReads
from chordmq.broker.replica import Replica
from chordmq.broker.settings import TopicSettings
from chordmq.broker.shared import Shared
from chordmq.clock import ManualClock, SystemClock
from chordmq.codecs.peer.replica import Place
from tests.broker.replicated import TOPIC_ID, Copies, CopyNode, replicated, until

SETTINGS = TopicSettings(min_insync_replicas=1)
PLACE = Place(TOPIC_ID, 0)


class OnlyTopic:
    """The topics of a node that has one."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition

    def partition(self, topic_id: bytes, index: int) -> Partition:
        return self._partition


class Reading:
    """A node without a copy, and a reader there."""

    def __init__(self, node: CopyNode) -> None:
        self.clock = ManualClock()
        self.shared = Shared(Flusher(), SystemClock())
        self.shared.new_replica = lambda partition: Replica(node.replicas, partition)
        self.partition = AbsentPartition("t", 0, SETTINGS, self.shared)
        self.topics = OnlyTopic(self.partition)
        self.reads = RemoteReads(node.links, self.topics, self.clock)  # type: ignore[arg-type]
        self.shared.reads = self.reads
        self.feed = Feed({0: self.partition}, {})
        self.values: list[bytes | None] = []
        self.broker = node.broker

    async def read(self, count: int) -> list[bytes | None]:
        """Return what has been read when it is so many values."""
        async with asyncio.timeout(60):
            while len(self.values) < count:
                found = self.feed.take(100, 1 << 20)
                self.values += [one.record.value for one in found]
                if not found:
                    await self.feed.more(10)
        return self.values

    def look(self) -> None:
        """Take what has come, and wait for more."""
        self.values += [one.record.value for one in self.feed.take(100, 1 << 20)]
        self.feed.wait(self.feed)


class Elsewhere:
    """The copies, and the nodes without one."""

    def __init__(self, copies: Copies, holders: tuple[int, ...]) -> None:
        self.copies = copies
        self.holders = holders
        self.readings = [Reading(n) for b, n in copies.nodes.items() if b not in holders]
        self.reads = {
            broker: RemoteReads(
                copies.nodes[broker].links,
                OnlyTopic(copies.nodes[broker].partition),  # type: ignore[arg-type]
                SystemClock(),
            )
            for broker in holders
        }
        self._revision = 0

    @property
    def leader(self) -> Partition:
        return self.copies.nodes[self._state.leader].partition

    async def tell(self, **fields: object) -> None:
        """Have another state, and let all nodes know it."""
        await self.copies.change(**fields)
        self._state = await self.copies.state()
        self._revision += 1
        for reading in self.readings:
            assert reading.partition.replica is not None
            reading.partition.replica.on_state(PLACE, self._state, self._revision)

    async def elect(self, leader: int) -> None:
        await self.tell(leader=leader, leader_epoch=self._state.leader_epoch + 1)

    def waiting(self) -> int:
        """Return how many nodes wait for more at the leader."""
        return self.leader.readers


@asynccontextmanager
async def elsewhere(directory: Path, holders: tuple[int, ...]) -> AsyncIterator[Elsewhere]:
    """Run three nodes, of which some hold the partition; the first of them leads."""
    async with replicated(directory, SETTINGS) as copies:
        both = Elsewhere(copies, holders)
        state = replace(await copies.state(), replicas=holders, isr=holders, leader=holders[0])
        await both.tell(**{name: getattr(state, name) for name in ("replicas", "isr", "leader")})
        await until(lambda: both.leader.is_leader)
        try:
            yield both
        finally:
            for reading in both.readings:
                await reading.partition.discard()
                reading.shared.flusher.close()
