"""All pipes of a node: follows the registry, finds topics to copy, and keeps a pull for each."""

import asyncio
import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from chordmq.broker.broker import Broker
from chordmq.broker.partition import Partition
from chordmq.broker.topic import Topic
from chordmq.errors import ChordMQError, TopicExists
from chordmq.logs import get_logger
from chordmq.metrics import Metric, counter, gauge
from chordmq.records.origin import cluster_number
from chordmq.topology.calling import Refused, Source
from chordmq.topology.http import Unreachable
from chordmq.topology.inlet import Inlet
from chordmq.topology.pipe import Health, Pace, read_schedule, worst
from chordmq.topology.pull import Pull, Traffic
from chordmq.topology.registry.client import Follower, Seat
from chordmq.topology.registry.nodes import Node, Registration, Topology
from chordmq.topology.settings import PipesSettings, patterns
from chordmq.topology.upstream import Offered, Upstream
from chordmq.topology.upstreams import Upstreams

LOOK_S_MIN = 1.0

log = get_logger(__name__)

Key = tuple[str, str, int]
"""URL of the source, topic, partition."""


class Pipes:
    """The place of this node in the tree, and what it copies."""

    def __init__(self, settings: PipesSettings, broker: Broker, data_dir: Path, url: str) -> None:
        self._settings = settings
        self._broker = broker
        self._upstreams = Upstreams(settings, settings.security)
        self._traffic = Traffic(
            clock=broker.clock,
            pace=Pace(settings.bytes_per_s, read_schedule(settings.schedule)),
            chance=random.Random(),  # noqa: S311 (no secret)
        )
        self._url = url
        self._own = cluster_number(broker.cluster_id)
        self.node = settings.node or broker.cluster_id
        self._changed = asyncio.Event()
        self._inlets: dict[tuple[bytes, int], Inlet] = {}
        self.pulls: dict[Key, Pull] = {}
        self._running: dict[Key, asyncio.Task[None]] = {}
        self._looking: dict[str, asyncio.Task[None]] = {}
        self.follower = self._follower(data_dir) if settings.registry else None

    async def run(self) -> None:
        """Copy until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            if self.follower is not None:
                tasks.create_task(self.follower.run())
            while True:
                self._changed.clear()
                sources = self._sources()
                self._leave({source.url for source, _ in sources})
                self._look(sources, tasks)
                await self._wait()

    @property
    def topology(self) -> Topology:
        """Return the tree as far as it is known."""
        return self.follower.topology if self.follower is not None else Topology()

    @property
    def health(self) -> Health:
        """Return how the worst pipe does."""
        return worst([pull.vitals.health for pull in self.pulls.values()])

    @property
    def lag(self) -> int:
        """Return how many records are still to be copied."""
        return sum(pull.vitals.lag for pull in self.pulls.values())

    def measures(self) -> Iterator[Metric]:
        """Yield the numbers of the pipes."""
        inlets = self._inlets.values()
        traffic = self._traffic
        yield gauge("chordmq_pipes", "Partitions that are copied.", len(self.pulls))
        yield gauge("chordmq_pipes_health", "0 healthy, 1 degraded, 2 unhealthy.",
                    self.health.value)  # fmt: skip
        yield gauge("chordmq_pipes_lag", "Records that are still to be copied.", self.lag)
        yield counter("chordmq_pipes_records", "Records copied.", sum(i.records for i in inlets))
        yield counter("chordmq_pipes_repeated", "Records that came although they were here.",
                      sum(one.repeated for one in inlets))  # fmt: skip
        yield counter("chordmq_pipes_bytes", "Bytes of batches that came.", traffic.bytes)
        yield counter("chordmq_pipes_failures", "Requests that failed.", traffic.failures)
        yield Metric(
            "chordmq_pipes_breaker", "0 calls pass, 1 one is tried, 2 calls are refused.", "gauge",
            [({"source": name}, one.state.value) for name, one in traffic.breakers.items()],
        )  # fmt: skip
        yield gauge("chordmq_pipes_registry", "Whether the registry answers.",
                    bool(self.follower and self.follower.is_connected))  # fmt: skip

    def _follower(self, data_dir: Path) -> Follower:
        seat = Seat(
            registry=self._settings.registry,
            node=self.node,
            token=self._settings.registry_token,
            context=self._settings.security.context(),
            cache=data_dir / "topology.json",
        )
        return Follower(seat, self._describe, self._changed.set)

    def _describe(self) -> Registration:
        return Registration(
            url=self._settings.url or self._urls(),
            role=self._settings.wanted_role,
            labels=self._settings.label_pairs,
            capacity=self._settings.capacity,
            health=self.health.name,  # type: ignore[arg-type]
            lag=self.lag,
        )

    def _urls(self) -> str:
        """Return where others find this node, and the rest of its cluster: any of them will do."""
        clustering = self._broker.clustering
        if clustering is None:
            return self._url
        found = [member.endpoint("http") for member in clustering.members.all()]
        return ",".join(
            f"{'https' if one.tls else 'http'}://{one.host}:{one.port}" for one in found if one
        )

    def _sources(self) -> list[tuple[Source, str]]:
        """Return whom to copy from, and which topics."""
        settings = self._settings
        if self.follower is None:
            return [(Source(settings.parent, settings.parent), settings.topics)]
        parent = self.topology.parent_of(self.node)
        below = self.topology.children_of(self.node) if settings.upstream else []
        found: list[tuple[Node | None, str]] = [(parent, settings.topics)]
        found += [(child, settings.upstream) for child in below]
        return [(Source(one.id, one.url), text) for one, text in found if one is not None and text]

    async def _follow(self, source: Source, wanted: str, tasks: asyncio.TaskGroup) -> None:
        """Have a pull for each partition that a source has and this node wants."""
        with closing(self._upstreams.open(source)) as upstream:
            for _ in source.urls:
                try:
                    await self._find(upstream, wanted, tasks)
                    return
                except (Unreachable, Refused, ChordMQError, KeyError) as error:
                    log.debug("a source does not tell its topics", url=source.url, why=str(error))

    async def _find(self, upstream: Upstream, wanted: str, tasks: asyncio.TaskGroup) -> None:
        for offered in await upstream.topics():
            if _matches(wanted, offered.name):
                topic = await self._ensure(upstream, offered)
                for partition in topic.partitions[: offered.partitions]:
                    self._pull(upstream.source, offered.origin, (topic, partition), tasks)

    def _pull(
        self,
        source: Source,
        origin: int,
        here: tuple[Topic, Partition],
        tasks: asyncio.TaskGroup,
    ) -> None:
        topic, partition = here
        key = (source.url, topic.name, partition.index)
        pull = self.pulls.get(key)
        place = (topic.id, partition.index)
        inlet = self._inlets.get(place)
        if inlet is None or inlet.partition is not partition:
            inlet = self._inlets[place] = Inlet(partition, self._own)
        if pull is not None and pull.origin == origin and pull.target is inlet:
            return
        self._end(key)
        self.pulls[key] = pull = Pull(self._upstreams.open(source), origin, inlet, self._traffic)
        self._running[key] = tasks.create_task(pull.run())

    async def _ensure(self, upstream: Upstream, offered: Offered) -> Topic:
        """Return the topic here that takes the copies; made if it is not there."""
        topics, name = self._broker.topics, offered.name
        topic = topics.find(name)
        if topic is None:
            settings = await upstream.settings(name)
            try:
                return await topics.create(name, offered.partitions, settings=settings)
            except TopicExists:
                topic = topics.get(name)
        if len(topic.partitions) < offered.partitions:
            await topics.add_partitions(name, offered.partitions)
        return topics.get(name)

    def _look(self, sources: list[tuple[Source, str]], tasks: asyncio.TaskGroup) -> None:
        """Ask each source for its topics, unless it has yet to answer."""
        for source, wanted in sources:
            task = self._looking.get(source.url)
            if task is None or task.done():
                look = self._follow(source, wanted, tasks)
                self._looking[source.url] = tasks.create_task(look)

    def _leave(self, urls: set[str]) -> None:
        """Have nothing more to do with other sources than these."""
        for url in self._looking.keys() - urls:
            self._looking.pop(url).cancel()
        for key in [key for key in self.pulls if key[0] not in urls]:
            self._end(key)

    def _end(self, key: Key) -> None:
        if key in self.pulls:
            self._running.pop(key).cancel()
            del self.pulls[key]

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(max(LOOK_S_MIN, self._settings.topics_interval_s)):
                await self._changed.wait()
        except TimeoutError:
            return


def _matches(wanted: str, name: str) -> bool:
    return any(pattern.fullmatch(name) for pattern in patterns(wanted))
