"""Mirrors topics between two clusters: records, settings, and how far consumer groups are."""

import asyncio
import random
import re
import ssl
from contextlib import closing
from dataclasses import field
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from chordmq.client.security import Security
from chordmq.clock import Clock
from chordmq.dataclass import dataclass
from chordmq.logs import get_logger
from chordmq.records.batch import BatchHeader, walk
from chordmq.records.origin import cluster_number, cluster_of, is_copy, origin_offset
from chordmq.topology.calling import Caller, Refused, Source, asked, posted
from chordmq.topology.http import Unreachable
from chordmq.topology.outlet import Outlet
from chordmq.topology.pipe import Health, Pace, read_schedule, worst
from chordmq.topology.pull import Pull, Traffic
from chordmq.topology.settings import WAIT_MS, PipesSettings, patterns
from chordmq.topology.upstream import Offered, Place, Upstream, committed, find_place
from chordmq.topology.upstreams import Upstreams

log = get_logger(__name__)


class NotMovable(Exception):
    """A group cannot be moved yet; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """One of the two: the addresses of its nodes, and what it asks for."""

    url: str
    """Of one or more nodes; `kafka://host:9092` for an Apache Kafka, to copy from."""
    security: Security = field(default_factory=Security)

    @property
    def source(self) -> Source:
        """Return the cluster as pipes name it."""
        return Source(self.url, self.url)

    def upstreams(self, wait_ms: int = WAIT_MS) -> Upstreams:
        """Return what opens this cluster to copy from it."""
        settings = PipesSettings(token=self.security.token, wait_ms=wait_ms)
        return Upstreams(settings, self.security)

    def caller(self, context: ssl.SSLContext | None) -> Caller:
        """Return somebody who asks this cluster; it is one of ours."""
        return Caller(self.source, self.security.token, context)


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorSettings:
    """What is mirrored, and how."""

    topics: str = ".*"
    """Regular expressions with commas."""
    groups: str = ""
    """Groups whose offsets are translated and committed on the other side, as with topics."""
    interval_s: float = 2.0
    """How often to look for new topics, settings and offsets."""
    bytes_per_s: int = 0
    schedule: str = ""


class Way:
    """From one cluster to the other; two of them make a mirror in both directions.

    The target says itself what it has, and takes no record twice nor one that it wrote first, so a
    way keeps nothing: it may be killed, started anew, or run twice at the same time.
    """

    def __init__(
        self, source: Cluster, target: Cluster, settings: MirrorSettings, clock: Clock
    ) -> None:
        self.source, self.target = source, target
        self._settings = settings
        self._topics, self._groups = patterns(settings.topics), patterns(settings.groups)
        self._upstreams = source.upstreams()
        self._context = target.security.context()
        self._traffic = Traffic(
            clock=clock,
            pace=Pace(settings.bytes_per_s, read_schedule(settings.schedule)),
            chance=random.Random(),  # noqa: S311 (no secret)
        )
        self.pulls: dict[tuple[str, int], Pull] = {}
        self._running: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._overrides: dict[str, dict[str, str]] = {}
        """The source's settings by topic, as they were at the last look."""
        self.error = ""

    @property
    def health(self) -> Health:
        """Return how the worst pipe does."""
        if self.error:
            return Health.UNHEALTHY
        return worst([pull.vitals.health for pull in self.pulls.values()])

    @property
    def lag(self) -> int:
        """Return how many records are still to be copied."""
        return sum(pull.vitals.lag for pull in self.pulls.values())

    @property
    def records(self) -> int:
        """Return how many records were copied."""
        return sum(pull.target.records for pull in self.pulls.values())

    async def run(self) -> None:
        """Mirror until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            upstream = self._upstreams.open(self.source.source)
            with closing(upstream), closing(self.target.caller(self._context)) as target:
                while True:
                    await self._look(upstream, target, tasks)
                    await asyncio.sleep(self._settings.interval_s)

    async def _look(self, source: Upstream, target: Caller, tasks: asyncio.TaskGroup) -> None:
        try:
            await self._follow_topics(source, target, tasks)
            await self._follow_groups(source, target)
        except (Unreachable, Refused, KeyError) as error:
            if not self.error:
                log.warning("a mirror is interrupted", to=self.target.url, why=str(error))
            self.error = str(error)
        else:
            self.error = ""

    async def _follow_topics(
        self, source: Upstream, target: Caller, tasks: asyncio.TaskGroup
    ) -> None:
        if await source.cluster_id() == (await asked(target, "/v1/info"))["cluster_id"]:
            raise Refused("both are the same cluster")
        there = {row["name"]: row for row in (await asked(target, "/v1/topics"))["topics"]}
        for offered in await source.topics():
            if not _matches(self._topics, offered.name):
                continue
            settings = await source.settings(offered.name)
            await self._ensure(target, offered, settings, there.get(offered.name))
            for index in range(offered.partitions):
                self._pull(offered.name, index, offered.origin, tasks)

    def _pull(self, topic: str, index: int, origin: int, tasks: asyncio.TaskGroup) -> None:
        key = (topic, index)
        pull = self.pulls.get(key)
        if pull is not None and pull.origin == origin:
            return
        if pull is not None:
            self._running.pop(key).cancel()
        outlet = Outlet(self.target.caller(self._context), topic, index)
        upstream = self._upstreams.open(self.source.source)
        self.pulls[key] = pull = Pull(upstream, origin, outlet, self._traffic)
        self._running[key] = tasks.create_task(pull.run())

    async def _ensure(
        self,
        target: Caller,
        offered: Offered,
        settings: dict[str, str],
        there: dict[str, Any] | None,
    ) -> None:
        """Have the topic on the other side, with as many partitions and what was set anew here."""
        name, count = offered.name, offered.partitions
        before = self._overrides.get(name, settings)
        self._overrides[name] = settings
        if there is None:
            body = {"name": name, "partitions": count, "settings": settings}
            await posted(target, "/v1/topics", msgspec.json.encode(body))
            return
        if there["partitions"] < count:
            more = msgspec.json.encode({"partitions": count})
            await posted(target, f"/v1/topics/{name}/partitions", more, method="PUT")
        changed = {
            one: settings.get(one)
            for one in {*before, *settings}
            if before.get(one) != settings.get(one)
        }
        if changed:
            body_of = msgspec.json.encode(changed)
            await posted(target, f"/v1/topics/{name}/settings", body_of, method="PATCH")

    async def _follow_groups(self, source: Upstream, target: Caller) -> None:
        if not self._groups:
            return
        for group in await source.groups():
            if not _matches(self._groups, group):
                continue
            places = await translated(source, target, group)
            known = await committed(target, group)
            new = [one for one in places if known.get(one.place, -1) < one.there]
            try:
                await commit(target, group, new)
            except Refused as error:  # it has consumers there: its place is theirs to say
                log.debug("offsets are not taken", group=group, why=str(error))


@dataclass(frozen=True, slots=True)
class Translated:
    """An offset of a group here, and what it is on the other side."""

    place: Place
    here: int
    there: int


async def translated(source: Upstream, target: Caller, group: str) -> list[Translated]:
    """Return where a group's offsets lie in the other cluster.

    Nothing that the group has yet to process lies before the place; where both sides were written
    to, something after it may have been processed.
    """
    found = []
    for place, offset in (await source.committed(group)).items():
        try:
            known = await source.known_at(*place, offset)
            there = await find_place(target, *place, known)
        except Refused:  # a topic that is not mirrored
            continue
        found.append(Translated(place, offset, there))
    return found


async def commit(target: Caller, group: str, places: list[Translated]) -> None:
    """Commit translated offsets for a group that has no consumers there."""
    if not places:
        return
    rows = [
        {"topic": one.place[0], "partition": one.place[1], "offset": one.there} for one in places
    ]
    body = msgspec.json.encode({"offsets": rows})
    await posted(target, f"/v1/groups/{quote(group, safe='')}/offsets", body, method="PUT")


async def move(source: Upstream, target: Caller, group: str) -> list[Translated]:
    """Have a group go on in the other cluster; raise NotMovable if that would lose something."""
    members = await source.members(group)
    if members:
        raise NotMovable(f"{group} has {members} consumers; stop them first")
    places = await translated(source, target, group)
    own = cluster_number((await asked(target, "/v1/info"))["cluster_id"])
    origins = {one.name: one.origin for one in await source.topics()}
    for one in places:
        known = await Outlet(target, *one.place).known()
        copies = Copies(origins[one.place[0]], known, own)
        if not await _are_there(source, one.place, one.here, copies):
            raise NotMovable(f"{one.place[0]}-{one.place[1]} has records yet to be copied")
    await commit(target, group, places)
    return places


class Copies(NamedTuple):
    """What the other cluster has of one partition."""

    origin: int
    known: dict[int, int]
    own: int

    def has(self, header: BatchHeader) -> bool:
        """Return whether all of a batch is there."""
        origin, last = self.origin, header.last_offset
        if is_copy(header):
            origin, last = header.producer_id, origin_offset(header) + header.last_offset_delta
        return last < self.known.get(origin, 0) or cluster_of(origin) == self.own


async def _are_there(source: Upstream, place: Place, stop: int, copies: Copies) -> bool:
    """Return whether the other cluster has all that lies before an offset."""
    offset = await source.place(*place, copies.origin, copies.known)
    while offset < stop:
        found = await source.batches(*place, offset)
        headers = [header for _, header in walk(memoryview(found.body))]
        if not all(copies.has(header) for header in headers if header.base_offset < stop):
            return False
        if found.next_offset <= offset:
            break  # what follows is no data
        offset = found.next_offset
    return True


def _matches(wanted: list[re.Pattern[str]], name: str) -> bool:
    return any(pattern.fullmatch(name) for pattern in wanted)
