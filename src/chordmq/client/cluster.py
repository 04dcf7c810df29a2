"""What a client knows of the brokers: their addresses, who leads what, and open connections."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import field
from typing import TypeVar

from chordmq.client.backoff import Backoff
from chordmq.client.breaker import Breaker, BreakerSettings, breaker_measures
from chordmq.client.codes import Code
from chordmq.client.connection import Address, Connection, ConnectionSettings, connect
from chordmq.client.errors import BrokerRefused, CannotConnect, ClientError, Closed, check
from chordmq.clock import Clock, SystemClock
from chordmq.codecs.kafka.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from chordmq.codecs.kafka.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from chordmq.dataclass import dataclass
from chordmq.metrics import Metric

DEFAULT_PORT = 9092
METADATA_AGE_MAX_S = 300.0
TOPIC_WAIT_S = 10.0
"""How long a topic that is just being created may be without leaders."""
RECONNECT = BreakerSettings(failures_max=10, rest_first_s=0.5, rest_most_s=2.0)
"""A broker that comes back is found within seconds."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionInfo:
    """Where one partition lives."""

    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicInfo:
    """A topic and its partitions, in order of their index."""

    name: str
    topic_id: bytes
    internal: bool
    partitions: tuple[PartitionInfo, ...]
    learned_s: float
    """When the client learned this, by its monotonic clock."""


@dataclass(slots=True)
class _Link:
    """The connection to one address for one purpose, with its back-off."""

    backoff: Backoff
    breaker: Breaker
    connection: Connection | None = None
    not_before_s: float = 0.0
    opening: asyncio.Lock = field(default_factory=asyncio.Lock)


def parse_bootstrap(text: str) -> list[Address]:
    """Read `host:port,host:port`; the port is 9092 where none is given."""
    addresses = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        host, colon, port = part.rpartition(":")
        if not colon or part.endswith("]"):
            host, port = part, str(DEFAULT_PORT)
        if not port.isdigit() or not 0 < int(port) < 65536:
            raise ValueError(f"{part!r} is not an address; write host:port")
        addresses.append(Address(host.strip("[]"), int(port)))
    if not addresses:
        raise ValueError("no broker address given; write host:port")
    return addresses


class Cluster:
    """Keeps metadata and connections; producers, consumers and admins stand on it.

    A connection has a purpose, because answers come in order: a waiting Fetch must not hold up
    a heartbeat.
    """

    def __init__(
        self,
        bootstrap: str,
        settings: ConnectionSettings | None = None,
        *,
        clock: Clock | None = None,
        chance: random.Random | None = None,
    ) -> None:
        self.clock = clock or SystemClock()
        self.chance = chance or random.Random()  # noqa: S311 (jitter, not a secret)
        self.controller_id = -1
        self.cluster_id: str | None = None
        self.settings = settings or ConnectionSettings()
        self._bootstrap = parse_bootstrap(bootstrap)
        self._links: dict[tuple[Address, str], _Link] = {}
        self._breakers: dict[Address, Breaker] = {}
        self._closed = False
        self.nodes: dict[int, Address] = {}
        self._topics: dict[str, TopicInfo] = {}

    async def open(self) -> None:
        """Reach one broker, or raise CannotConnect; later failures are retried, this one is not."""
        try:
            await self.refresh([])
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close every connection."""
        self._closed = True
        for link in self._links.values():
            if link.connection is not None:
                link.connection.close()

    def measures(self) -> Iterator[Metric]:
        """Yield how the connections to each broker fare."""
        return breaker_measures(self._breakers.values())

    async def node(self, node_id: int, purpose: str = "control") -> Connection:
        """Return an open connection to a node."""
        address = self.nodes.get(node_id)
        if address is None:
            await self.refresh([])
            address = self.nodes.get(node_id)
        if address is None:
            raise BrokerRefused(Code.BROKER_NOT_AVAILABLE, f"node {node_id}")
        return await self._connection(address, purpose)

    async def any_node(self) -> Connection:
        """Return a connection to some broker: an open one if there is, else the first to answer."""
        for link in self._links.values():
            if link.connection is not None and link.connection.is_open:
                return link.connection
        failure: ClientError | None = None
        for address in dict.fromkeys([*self._bootstrap, *self.nodes.values()]):
            try:
                return await self._connection(address, "control")
            except CannotConnect as error:
                failure = failure or error
        raise failure or CannotConnect("no broker address is known")

    async def controller(self) -> Connection:
        """Return a connection to the node that changes topics."""
        if self.controller_id not in self.nodes:
            await self.refresh([])
        if self.controller_id not in self.nodes:
            return await self.any_node()
        return await self.node(self.controller_id)

    async def coordinator(self, group: str) -> Connection:
        """Ask which node coordinates a group, and return a connection to it."""
        connection = await self.any_node()
        request = FindCoordinatorRequest(coordinator_keys=[group])
        answer = await connection.call(request, FindCoordinatorResponse)
        row = answer.coordinators[0]
        check(row.error_code, f"coordinator of group {group}", row.error_message)
        self.nodes[row.node_id] = Address(row.host, row.port)
        return await self.node(row.node_id, "group")

    async def refresh(
        self, topics: Iterable[str] | None, *, create: bool = False
    ) -> MetadataResponse:
        """Fetch metadata of the named topics, or of all with None; return the raw answer."""
        connection = await self.any_node()
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=create)
        answer = await connection.call(request, MetadataResponse)
        self.nodes = {row.node_id: Address(row.host, row.port) for row in answer.brokers}
        self.controller_id = answer.controller_id
        self.cluster_id = answer.cluster_id
        for row in answer.topics:
            self._learn(row)
        return answer

    async def topic(self, name: str, *, create: bool = False) -> TopicInfo:
        """Return what is known of a topic; ask when it is unknown or old."""
        known = self._topics.get(name)
        if known and self.clock.monotonic_s() - known.learned_s < METADATA_AGE_MAX_S:
            return known
        codes = {Code.LEADER_NOT_AVAILABLE}
        if create:
            codes.add(Code.UNKNOWN_TOPIC_OR_PARTITION)

        async def ask() -> TopicInfo:
            answer = await self.refresh([name], create=create)
            row = next(row for row in answer.topics if row.name == name)
            check(row.error_code, f"topic {name}")
            return self._topics[name]

        return await self.retrying(ask, codes, TOPIC_WAIT_S)

    def forget(self, topic: str) -> None:
        """Drop what is known of a topic, because a leader said that it is wrong."""
        self._topics.pop(topic, None)

    def known(self, topic: str) -> TopicInfo | None:
        """Return a topic's metadata without asking anybody, if there is any."""
        return self._topics.get(topic)

    async def leader(self, topic: str, partition: int) -> int:
        """Return the node that leads a partition."""
        info = await self.topic(topic)
        if not 0 <= partition < len(info.partitions):
            raise BrokerRefused(Code.UNKNOWN_TOPIC_OR_PARTITION, f"{topic} partition {partition}")
        leader = info.partitions[partition].leader
        if leader < 0:
            self.forget(topic)
            raise BrokerRefused(Code.LEADER_NOT_AVAILABLE, f"{topic} partition {partition}")
        return leader

    async def retrying(
        self, attempt: Callable[[], Awaitable[T]], codes: Iterable[int], patience_s: float
    ) -> T:
        """Repeat an attempt with back-off while it fails with one of the codes or loses its way."""
        backoff = Backoff(self.chance)
        deadline_s = self.clock.monotonic_s() + patience_s
        while True:
            try:
                return await attempt()
            except ClientError as error:
                may = error.code in codes if isinstance(error, BrokerRefused) else error.retriable
                delay_s = backoff.next_s()
                if not may or self.clock.monotonic_s() + delay_s > deadline_s:
                    raise
            await asyncio.sleep(delay_s)

    def _learn(self, row: MetadataResponseTopic) -> None:
        assert row.name is not None
        if row.error_code:
            self.forget(row.name)
            return
        partitions = [
            PartitionInfo(
                index=part.partition_index,
                leader=part.leader_id,
                leader_epoch=part.leader_epoch,
                replicas=tuple(part.replica_nodes),
                in_sync=tuple(part.isr_nodes),
            )
            for part in sorted(row.partitions, key=lambda part: part.partition_index)
        ]
        self._topics[row.name] = TopicInfo(
            name=row.name,
            topic_id=row.topic_id,
            internal=row.is_internal,
            partitions=tuple(partitions),
            learned_s=self.clock.monotonic_s(),
        )

    async def _connection(self, address: Address, purpose: str) -> Connection:
        link = self._link(address, purpose)
        async with link.opening:
            if self._closed:
                raise Closed("the client was closed")
            if link.connection is not None and link.connection.is_open:
                return link.connection
            await asyncio.sleep(max(0.0, link.not_before_s - self.clock.monotonic_s()))
            if not link.breaker.allows(self.clock.monotonic_s()):
                raise CannotConnect(f"{address} failed too often and is left alone for a moment")
            try:
                link.connection = await connect(address, self.settings)
            except CannotConnect:
                link.not_before_s = self.clock.monotonic_s() + link.backoff.next_s()
                link.breaker.failed(self.clock.monotonic_s())
                raise
            link.backoff.reset()
            link.breaker.succeeded()
            return link.connection

    def _link(self, address: Address, purpose: str) -> _Link:
        link = self._links.get((address, purpose))
        if link is None:
            breaker = self._breakers.get(address)
            if breaker is None:
                breaker = Breaker(str(address), self.chance, RECONNECT)
                self._breakers[address] = breaker
            link = self._links[address, purpose] = _Link(Backoff(self.chance), breaker)
        return link
