"""One pipe: asks a source for the batches of a partition, again and again, and stores them."""

import asyncio
import random
from dataclasses import field
from typing import Protocol

from chordmq.client.backoff import Backoff
from chordmq.client.breaker import Breaker, BreakerSettings
from chordmq.clock import Clock
from chordmq.dataclass import dataclass
from chordmq.errors import ChordMQError
from chordmq.logs import get_logger
from chordmq.topology.calling import Refused, Source
from chordmq.topology.http import Unreachable
from chordmq.topology.pipe import Pace, Vitals
from chordmq.topology.upstream import Upstream

BACKOFF_MOST_S = 5.0
BREAKER = BreakerSettings(failures_max=5, rest_first_s=0.5, rest_most_s=BACKOFF_MOST_S)
FOREIGN_S = 1.0
"""How often to look whether this node leads a partition by now."""

log = get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class Traffic:
    """What all pipes of a node share."""

    clock: Clock
    pace: Pace
    bytes: int = 0
    failures: int = 0
    chance: random.Random = field(default_factory=random.Random)
    breakers: dict[str, Breaker] = field(default_factory=dict)

    def breaker(self, source: Source) -> Breaker:
        """Return what stops calls to a source that does not answer."""
        if source.name not in self.breakers:
            self.breakers[source.name] = Breaker(source.name, self.chance, BREAKER)
        return self.breakers[source.name]


class Target(Protocol):
    """The partition that a pipe fills: of this node, or of a cluster far away."""

    topic: str
    index: int
    records: int
    """How many were copied."""
    repeated: int
    """How many came and were there already."""

    @property
    def is_leader(self) -> bool:
        """Return whether batches can be stored there by us."""
        ...

    async def known(self) -> dict[int, int]:
        """Return what is there: the next offset by origin."""
        ...

    async def take(self, source: int, body: bytearray) -> int:
        """Store what is new, and return how many records that were."""
        ...


class Pull:
    """Copies one partition from one source."""

    def __init__(self, upstream: Upstream, origin: int, target: Target, traffic: Traffic) -> None:
        self.source = upstream.source
        self.target = target
        self._upstream = upstream
        self.vitals = Vitals()
        self.error = ""
        self.origin = origin
        self._traffic = traffic
        self._backoff = Backoff(traffic.chance, most_s=BACKOFF_MOST_S)
        self._breaker = traffic.breaker(upstream.source)
        self._offset: int | None = None
        """Where to go on at the source; None where that must be found out first."""

    async def run(self) -> None:
        """Copy until cancelled; what goes wrong is tried again after a while."""
        try:
            while True:
                if not self.target.is_leader:
                    self._offset = None
                    await asyncio.sleep(FOREIGN_S)
                    continue
                now_s = self._traffic.clock.monotonic_s()
                if not self._breaker.allows(now_s):
                    await asyncio.sleep(self._breaker.wait_s(now_s))
                    continue
                await self._attempt()
        finally:
            self._upstream.close()

    async def _attempt(self) -> None:
        try:
            wait_s = await self._round()
        except Unreachable as error:
            self._failed(error)
            self._breaker.failed(self._traffic.clock.monotonic_s())
            wait_s = self._backoff.next_s()
        except (Refused, ChordMQError) as error:
            self._failed(error)
            self._breaker.succeeded()  # somebody is there
            self._offset = None
            wait_s = self._backoff.next_s()
        except Exception as error:  # one pipe must not end the node
            log.exception("a pipe failed", topic=self.target.topic)
            self._failed(error)
            self._offset = None
            wait_s = BACKOFF_MOST_S
        else:
            self.vitals.note(is_well=True)
            self._breaker.succeeded()
            self.error = ""
            self._backoff.reset()
        if wait_s:
            await asyncio.sleep(wait_s)

    def _failed(self, error: Exception) -> None:
        if not self.error:
            where = f"{self.target.topic}-{self.target.index}"
            log.warning("a pipe is interrupted", source=self.source.url, at=where, why=str(error))
        self.error = str(error)
        self._traffic.failures += 1
        self.vitals.note(is_well=False)

    async def _round(self) -> float:
        """Ask once and store what comes; return how long to wait before the next time."""
        if wait_s := self._wait_s(0):
            return wait_s
        topic, index = self.target.topic, self.target.index
        if self._offset is None:
            known = await self.target.known()
            self._offset = await self._upstream.place(topic, index, self.origin, known)
        found = await self._upstream.batches(topic, index, self._offset)
        size = len(found.body)
        self._traffic.bytes += size
        await self.target.take(self.origin, found.body)
        self._offset = found.next_offset
        self.vitals.lag = max(0, found.end_offset - found.next_offset)
        return self._wait_s(size)

    def _wait_s(self, size: int) -> float:
        clock = self._traffic.clock
        return self._traffic.pace.wait_s(size, clock.monotonic_s(), clock.now_ms())
