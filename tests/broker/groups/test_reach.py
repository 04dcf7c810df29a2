"""What a node alone says of its groups, and over real links what others are asked."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from chordmq.broker.broker import Broker
from chordmq.broker.flusher import Flusher
from chordmq.broker.groups.offsets import Commit
from chordmq.broker.groups.reach import GroupReach
from chordmq.broker.settings import BrokerSettings
from chordmq.clock import SystemClock
from chordmq.errors import GroupNotFound, NotCoordinator, OffsetMetadataTooLarge
from tests.cluster.linked import linked, until_connected

HERE, THERE = 1, 2


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    broker = Broker(tmp_path, BrokerSettings(), SystemClock(), Flusher())
    running = asyncio.ensure_future(broker.run())
    await broker.groups.loaded.wait()
    await broker.topics.create("t", 2)
    yield broker
    running.cancel()
    await asyncio.wait([running])
    broker.close()


class Stranger:
    """The groups of a node that looks after none of them."""

    async def prepare(self) -> None:
        """Have the log."""

    def committed(self, group: str) -> object:
        raise NotCoordinator("another does", THERE)

    async def commit(self, group: str, *_: object) -> object:
        raise NotCoordinator("another does", THERE)

    async def delete(self, group: str) -> None:
        raise NotCoordinator("another does", THERE)

    def groups(self) -> list[object]:
        return []


async def test_a_node_alone_keeps_all_places(broker: Broker) -> None:
    reach = broker.group_reach
    await reach.commit("g", [Commit("t", 1, 7)])
    assert await reach.committed("g") == {("t", 1): 7}
    assert [(one.group, one.state, one.members) for one in await reach.all([])] == [
        ("g", "Empty", 0)
    ]
    with pytest.raises(OffsetMetadataTooLarge):
        await reach.commit("g", [Commit("t", 0, 1, metadata="x" * 5_000)])
    await reach.delete("g")
    assert await reach.committed("g") == {}
    with pytest.raises(GroupNotFound):
        await reach.delete("g")


async def test_another_node_keeps_the_place_of_who_reads_here(broker: Broker) -> None:
    """A4: the first node looks after no group, and answers for those of the second."""
    async with linked(2) as (one, two):
        await until_connected(one, two)
        here = GroupReach(Stranger())  # type: ignore[arg-type]
        here.join(one.links)
        there = GroupReach(broker.groups)
        there.join(two.links)
        await here.commit("g", [Commit("t", 0, 3), Commit("t", 1, 4)])
        assert await here.committed("g") == {("t", 0): 3, ("t", 1): 4}
        assert [found.group for found in await here.all([THERE])] == ["g"]
        with pytest.raises(OffsetMetadataTooLarge):
            await here.commit("g", [Commit("t", 0, 1, metadata="x" * 5_000)])
        await here.delete("g")
        assert await here.committed("g") == {}
        with pytest.raises(GroupNotFound):
            await here.delete("g")
