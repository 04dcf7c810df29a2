"""One partition on several nodes of one process: real logs, real links, one store for all."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec.structs import replace

from chordmq.broker.flusher import Flusher
from chordmq.broker.forwarding import Forwarding
from chordmq.broker.log_settings import log_settings
from chordmq.broker.partition import Partition
from chordmq.broker.replica import Replica
from chordmq.broker.replicas import Replicas
from chordmq.broker.settings import TopicSettings
from chordmq.broker.shared import Shared
from chordmq.clock import SystemClock
from chordmq.cluster.link import LinkDown
from chordmq.cluster.links import Links
from chordmq.cluster.metastore.local import LocalStore
from chordmq.cluster.metastore.store import Compare, Put
from chordmq.cluster.state import PartitionState, decode, encode, partition_key
from chordmq.codecs.peer.frames import Body, Kind
from chordmq.records.batch import walk
from chordmq.records.record import NewRecord, build_batch, read_records
from chordmq.storage.log import Log
from chordmq.storage.metadata.database import Database
from chordmq.storage.metadata.segments import SegmentCatalogue
from chordmq.storage.tail import TailBudget
from tests.cluster.linked import Linked, introduce, linked, until_connected

TOPIC_ID = b"0123456789abcdef"
KEY = partition_key(TOPIC_ID, 0)
MEMORY = 1 << 20
"""Bytes of the newest records that a node keeps in memory."""


class CopyNode:
    """A node with one copy of the partition."""

    def __init__(
        self, directory: Path, node: Linked, store: LocalStore, settings: TopicSettings
    ) -> None:
        self.clock = SystemClock()
        self.links = node.links
        self.broker = node.links.broker
        self.replicas = Replicas(self.broker, self.clock, self._find)
        self.replicas.begin(node.links.hello().epoch)
        self.replicas.connect(node.links, store, lambda broker, epoch: [])
        node.links.on(Kind.REPLICA_FETCH, self.replicas.on_fetches)
        node.links.on(Kind.REPLICA_ANSWER, self.replicas.on_answers)
        node.links.on_connected.append(self.replicas.on_connected)
        node.links.on_lost.append(self.replicas.on_lost)
        self.database = Database(directory / "meta.db")
        self.shared = Shared(Flusher(), self.clock)
        self.shared.new_replica = lambda partition: Replica(self.replicas, partition)
        log = Log(
            directory / "t-0",
            log_settings(settings),
            self.clock,
            TailBudget(MEMORY, self.clock),
            SegmentCatalogue(self.database),
        )
        self.partition = Partition("t", 0, log, settings, self.shared)
        self.task = asyncio.ensure_future(self.replicas.run())

    def _find(self, topic_id: bytes, index: int) -> Replica | None:
        assert (topic_id, index) == (TOPIC_ID, 0)
        return self.partition.replica

    def values(self) -> list[bytes | None]:
        """Return the values of the records that consumers may read here."""
        buffers = self.partition.read(self.partition.log.start_offset, 1 << 20)
        return [
            record.value
            for buffer in buffers
            for position, header in walk(buffer)
            for record in read_records(buffer[position : position + header.size])
        ]

    async def close(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])
        self.shared.flusher.close()
        self.shared.read_ahead.close()
        self.partition.close()
        self.database.close()


class Copies:
    """All copies, and the store that says who leads."""

    def __init__(self, nodes: list[CopyNode], links: list[Linked], store: LocalStore) -> None:
        self.nodes = {node.broker: node for node in nodes}
        self.links = links
        self.store = store

    async def state(self) -> PartitionState:
        entry = await self.store.get(KEY)
        assert entry is not None
        return decode(entry, PartitionState)

    async def change(self, **fields: object) -> None:
        """Write a new state and tell all nodes, as the controller and the watch do."""
        tell = await self.decide(**fields)
        tell()

    async def decide(self, **fields: object) -> Callable[[], None]:
        """Write a new state; return what tells all nodes of it."""
        entry = await self.store.get(KEY)
        before = decode(entry, PartitionState) if entry else PartitionState(replicas=(1, 2, 3))
        state = replace(before, **fields)
        revision = entry.revision if entry else 0
        revision = await self.store.commit([Compare(KEY, revision)], [Put(KEY, encode(state))])

        def tell() -> None:
            for node in self.nodes.values():
                node.replicas.on_state(TOPIC_ID, 0, state, revision)

        return tell

    async def isolate(self, broker: int) -> None:
        """End all links of a node."""
        await self.links[broker - 1].close()

    async def reconnect(self, broker: int) -> None:
        await self.links[broker - 1].open()
        introduce(self.links)

    async def elect(self, leader: int) -> None:
        state = await self.state()
        await self.change(leader=leader, leader_epoch=state.leader_epoch + 1)


class OneTopic:
    """The topics of a node that has one."""

    id = TOPIC_ID

    def __init__(self, node: CopyNode) -> None:
        self._node = node

    def get(self, name: str) -> "OneTopic":
        return self

    def partition(self, topic_id: bytes, index: int) -> Partition:
        return self._node.partition


class SlowLinks:
    """The links of a node, on which requests to some nodes take as long as the test wants."""

    def __init__(self, links: Links) -> None:
        self._links = links
        self._held: dict[int, asyncio.Future[None]] = {}
        self.held = 0
        """How many requests have not got to their node yet."""
        self.answer = links.answer

    def hold(self, broker: int) -> None:
        """Let requests to a node go no further."""
        self._held[broker] = asyncio.get_running_loop().create_future()

    def release(self, broker: int) -> None:
        """Let those go on that were held, and the next ones."""
        self._held.pop(broker).set_result(None)

    def lose(self, broker: int) -> None:
        """Let those never arrive that were held, and the next ones pass."""
        self._held.pop(broker).set_exception(LinkDown("the link has ended"))

    async def ask(
        self, broker: int, kind: int, body: Body = (), timeout_s: float = 60
    ) -> memoryview:
        held = self._held.get(broker)
        if held is not None:
            self.held += 1
            await asyncio.shield(held)
            self.held -= 1
        return await self._links.ask(broker, kind, body, timeout_s)


def join(copies: Copies) -> dict[int, SlowLinks]:
    """Let all nodes forward to each other; return their ways to do so."""
    ways = {}
    for broker, node in copies.nodes.items():
        ways[broker] = SlowLinks(node.links)
        forwarding = Forwarding(ways[broker], OneTopic(node))  # type: ignore[arg-type]
        node.shared.forward = forwarding.append
    return ways


@asynccontextmanager
async def replicated(directory: Path, settings: TopicSettings) -> AsyncIterator[Copies]:
    """Run three nodes with one partition, led by node 1."""
    database = Database(directory / "store.db")
    store = LocalStore(database, SystemClock())
    async with linked(3) as links:
        nodes = []
        for node in links:
            home = directory / str(node.links.broker)
            home.mkdir()
            nodes.append(CopyNode(home, node, store, settings))
        for one, other in ((0, 1), (0, 2), (1, 2)):
            await until_connected(links[one], links[other])
        copies = Copies(nodes, links, store)
        await copies.change(leader=1, isr=(1, 2, 3))
        try:
            yield copies
        finally:
            for copy in nodes:
                await copy.close()
    database.close()


def batch(*values: bytes) -> memoryview:
    return memoryview(build_batch([NewRecord(0, None, value) for value in values]))


async def until(holds: Callable[[], bool], seconds: float = 60) -> None:
    """Wait until something holds; the event loop works meanwhile."""
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110 - nobody tells when it does
            await asyncio.sleep(0.005)
