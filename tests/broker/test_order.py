"""Proves that what is given to one node keeps its order, whoever leads the partition meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from chordmq.broker.appends import Appends
from chordmq.broker.patience import Patience
from chordmq.broker.settings import TopicSettings
from chordmq.clock import SystemClock
from chordmq.records.record import NewRecord
from tests.broker.replicated import Copies, SlowLinks, join, replicated, until

SETTINGS = TopicSettings(min_insync_replicas=2)


class Publisher:
    """A client of one node, which sends on while others wait for their answers."""

    def __init__(self, copies: Copies, broker: int) -> None:
        self._partition = copies.nodes[broker].partition
        self._appends = Appends(Patience(SystemClock()))
        self._sent: list[asyncio.Future[int]] = []

    def send(self, value: bytes) -> asyncio.Future[int]:
        future = self._appends.append(self._partition, [NewRecord(0, None, value)])
        self._sent.append(future)
        return future

    async def answers(self) -> list[int]:
        async with asyncio.timeout(60):
            return await asyncio.gather(*self._sent)


@asynccontextmanager
async def publishing(
    directory: Path, broker: int
) -> AsyncIterator[tuple[Copies, Publisher, SlowLinks]]:
    """Run three nodes, and a client of one that the leader has taken a record of."""
    async with replicated(directory, SETTINGS) as copies:
        ways = join(copies)
        publisher = Publisher(copies, broker)
        async with asyncio.timeout(60):
            await publisher.send(b"first")
        yield copies, publisher, ways[broker]


async def test_what_is_under_way_to_an_old_leader_is_not_overtaken_when_its_node_leads(
    tmp_path: Path,
) -> None:
    """E3, E4: the old leader refuses it, and this node would have taken the next one before."""
    async with publishing(tmp_path, 2) as (copies, publisher, way):
        way.hold(1)
        publisher.send(b"under way")
        await until(lambda: way.held == 1)
        await copies.elect(2)
        publisher.send(b"next")
        publisher.send(b"last")
        await copies.state()  # time enough for a node that leads to append
        way.release(1)
        assert await publisher.answers() == [0, 1, 2, 3]
        assert copies.nodes[2].values() == [b"first", b"under way", b"next", b"last"]


async def test_what_is_under_way_to_an_old_leader_is_not_overtaken_at_a_third_node(
    tmp_path: Path,
) -> None:
    """E3, E4: the same holds if it goes from one other node to the next."""
    async with publishing(tmp_path, 2) as (copies, publisher, way):
        way.hold(1)
        publisher.send(b"under way")
        await until(lambda: way.held == 1)
        await copies.elect(3)
        publisher.send(b"next")
        await copies.state()
        way.release(1)
        assert await publisher.answers() == [0, 1, 2]
        assert copies.nodes[3].values() == [b"first", b"under way", b"next"]


async def test_what_was_under_way_on_a_broken_link_is_not_overtaken_on_the_next(
    tmp_path: Path,
) -> None:
    """E3, E4: what comes before anybody hears of it would wait for the next link, and go first."""
    async with publishing(tmp_path, 2) as (copies, publisher, way):
        way.hold(1)
        publisher.send(b"under way")
        await until(lambda: way.held == 1)
        link = copies.nodes[2].links.peers[1].link
        assert link is not None
        link.close("it is broken")
        await link.ended.wait()
        way.lose(1)
        publisher.send(b"next")
        assert await publisher.answers() == [0, 1, 2]
        assert copies.nodes[1].values() == [b"first", b"under way", b"next"]


async def test_what_a_leader_could_not_commit_is_not_overtaken_in_the_turn_in_which_it_ends(
    tmp_path: Path,
) -> None:
    """E3, E4: those who wait for commits hear of it a turn after the partition does."""
    async with publishing(tmp_path, 1) as (copies, publisher, _):
        state = await copies.state()
        tell = await copies.decide(leader=2, leader_epoch=state.leader_epoch + 1)
        publisher.send(b"not committed")
        publisher.send(b"neither")
        await asyncio.sleep(0)
        assert copies.nodes[1].partition.log.end_offset == 3
        publisher.send(b"next")
        tell()
        assert await publisher.answers() == [0, 1, 2, 3]
        assert copies.nodes[2].values() == [b"first", b"not committed", b"neither", b"next"]


async def test_a_leader_that_is_elected_again_appends_nothing_old_behind_what_is_new(
    tmp_path: Path,
) -> None:
    """E3, E4: a batch may be there twice, but not as if it had been sent after the next one.

    The second time it lies in other memory: the followers get the first from where it was.
    """
    async with publishing(tmp_path, 1) as (copies, publisher, _):
        state = await copies.state()
        tell = await copies.decide(leader=1, leader_epoch=state.leader_epoch + 1)
        publisher.send(b"not committed")
        await asyncio.sleep(0)
        publisher.send(b"next")
        tell()
        await publisher.answers()
        wanted = [b"first", b"not committed", b"not committed", b"next"]
        await until(lambda: all(node.values() == wanted for node in copies.nodes.values()))
