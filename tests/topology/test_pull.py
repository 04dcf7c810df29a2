"""A pipe whose source is away: it waits longer and longer, and one request tries for all."""

import asyncio
import random

from chordmq.client.breaker import State
from chordmq.clock import SystemClock
from chordmq.topology.calling import Refused, Source
from chordmq.topology.http import Unreachable
from chordmq.topology.pipe import Health, Pace
from chordmq.topology.pull import Pull, Traffic
from chordmq.topology.upstream import Batches, HttpUpstream


class Flaky(HttpUpstream):
    """A source that fails as often as it is told, then has five records."""

    def __init__(self, failures: list[Exception]) -> None:
        self.source = Source("flaky", "http://flaky")
        self.places: list[dict[int, int]] = []
        self.is_drained = asyncio.Event()
        self._failures = failures

    async def place(self, _topic: str, _index: int, _origin: int, known: object) -> int:
        assert isinstance(known, dict)
        self.places.append(known)
        return 0

    async def batches(self, _topic: str, _index: int, offset: int) -> Batches:
        if self._failures:
            raise self._failures.pop(0)
        if offset:
            self.is_drained.set()
            await asyncio.Event().wait()
        return Batches(bytearray(b"five"), 5, 9)

    def close(self) -> None:
        pass


class Sink:
    """A partition that remembers what came."""

    topic, index, is_leader = "orders", 0, True
    records = repeated = 0

    async def known(self) -> dict[int, int]:
        return {-7: self.records}

    async def take(self, _source: int, body: bytearray) -> int:
        assert body == b"five"
        self.records += 5
        return 5


async def copied(failures: list[Exception]) -> tuple[Pull, Flaky, Traffic]:
    """Run a pull until something has come."""
    chance = random.Random(1)
    traffic = Traffic(clock=SystemClock(), pace=Pace(), chance=chance)
    upstream, sink = Flaky(failures), Sink()
    pull = Pull(upstream, -7, sink, traffic)
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        running = tasks.create_task(pull.run())
        await upstream.is_drained.wait()
        running.cancel()
    return pull, upstream, traffic


async def test_a_source_that_is_away_is_left_alone_for_a_while() -> None:
    """C14: after five failures in a row a breaker opens for all pipes of a source."""
    pull, upstream, traffic = await copied([Unreachable("away")] * 6)
    breaker = traffic.breakers["flaky"]
    assert breaker.failures == traffic.failures == 6
    assert breaker.state is State.CLOSED
    assert pull.vitals.lag == 4
    assert pull.vitals.health is Health.UNHEALTHY
    assert len(upstream.places) == 1


async def test_a_source_that_refuses_is_there_and_is_asked_for_the_place_again() -> None:
    """C14: an answer that is a refusal says nothing against the link."""
    _, upstream, traffic = await copied([Refused("409: gone")] * 2)
    assert traffic.breakers["flaky"].failures == 0
    assert upstream.places == [{-7: 0}] * 3
