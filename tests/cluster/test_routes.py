"""The ring over real links: nodes of one process that share what a store would tell them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from chordmq.clock import SystemClock
from chordmq.cluster.image import Image
from chordmq.cluster.members import Members
from chordmq.cluster.metastore.local import LocalStore
from chordmq.cluster.metastore.store import Entry, Snapshot
from chordmq.cluster.ring.identifier import place_of_broker
from chordmq.cluster.routes import Routes
from chordmq.cluster.state import (
    CLUSTER,
    BrokerRegistration,
    ClusterIdentity,
    Endpoint,
    Liveness,
    broker_key,
    encode,
    live_key,
)
from chordmq.storage.metadata.database import Database
from tests.cluster.linked import Linked, linked


class RingNode:
    """A node that is nothing but its links and its place on the ring."""

    def __init__(self, node: Linked, image: Image) -> None:
        self.node = node
        self.links = node.links
        self.routes = Routes(node.links, Members(image, node.links.broker, is_alone=False), "c")
        self.heard: list[tuple[int, bytes]] = []
        self.routes.watchers.append(lambda origin, payload: self.heard.append((origin, payload)))


def snapshot(nodes: list[Linked]) -> list[Entry]:
    """Return what the store would hold with these nodes alive."""
    entries = [Entry(CLUSTER, encode(ClusterIdentity(id="c")), 1, 1)]
    for node in nodes:
        broker, (address, epoch) = node.links.broker, node.place
        endpoint = Endpoint(host=address.host, port=address.port)
        registration = BrokerRegistration(uuid=f"uuid-{broker}", endpoints={"peer": endpoint})
        entries.append(Entry(broker_key(broker), encode(registration), epoch, epoch))
        entries.append(Entry(live_key(broker), encode(Liveness(epoch=epoch)), epoch, epoch))
    return entries


@asynccontextmanager
async def ring_of(count: int, folder: Path) -> AsyncIterator[list[RingNode]]:
    """Run nodes that have found their places."""
    store = LocalStore(Database(folder / "m.sqlite"), SystemClock())
    async with linked(count, follow=False) as nodes, asyncio.TaskGroup() as tasks:
        image = Image(store, Snapshot(snapshot(nodes), 1))
        members = [RingNode(node, image) for node in nodes]
        running = []
        for member in members:
            member.routes.begin(f"uuid-{member.links.broker}", member.links.hello().epoch)
            running.append(tasks.create_task(member.routes.run()))
        await asyncio.sleep(0)
        yield members
        for task in running:
            task.cancel()


async def until(condition: Callable[[], bool]) -> None:
    """Look now and then until something is so."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - what changes tells nobody
            await asyncio.sleep(0.01)


def is_whole(nodes: list[RingNode]) -> bool:
    """Say whether each has the ideal neighbours, and all are linked."""
    places = sorted(place_of_broker("c", f"uuid-{node.links.broker}") for node in nodes)
    for node in nodes:
        member = node.routes.member
        assert member is not None
        position = places.index(member.me)
        others = [*places[position + 1 :], *places[:position]]
        near = member.neighbourhood
        if list(near.successors) != others[:3] or near.predecessor != others[-1]:
            return False
        if near.suspects:  # those that were not there yet when they were first asked
            return False
        if not all(node.links.is_connected(o.links.broker) for o in nodes if o is not node):
            return False
    return True


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chordmq.cluster.routes.TICK_INTERVAL_S", 0.02)


async def test_any_node_finds_the_owner_of_any_key(tmp_path: Path) -> None:
    """A8: every node can be asked for every key."""
    async with ring_of(6, tmp_path) as nodes:
        await until(lambda: is_whole(nodes))
        owners = sorted(
            (place_of_broker("c", f"uuid-{node.links.broker}"), node.links.broker) for node in nodes
        )
        chance = Random(2)
        for _ in range(20):
            key = chance.randrange(2**64)
            expected = next((broker for place, broker in owners if place >= key), owners[0][1])
            found = await chance.choice(nodes).routes.look_up(key)
            assert found.broker == expected
            assert found.hops <= 3


async def test_a_broadcast_reaches_every_other_node_once(tmp_path: Path) -> None:
    """A7: fan-out along the fingers reaches each node once."""
    async with ring_of(6, tmp_path) as nodes:
        await until(lambda: is_whole(nodes))
        nodes[0].routes.broadcast(b"news")
        await until(lambda: all(node.heard for node in nodes[1:]))
        assert [node.heard for node in nodes] == [[]] + [[(1, b"news")]] * 5


async def test_the_ring_closes_over_a_node_that_has_gone(tmp_path: Path) -> None:
    async with ring_of(6, tmp_path) as nodes:
        await until(lambda: is_whole(nodes))
        gone = nodes.pop(2)
        await gone.node.close()
        image = nodes[0].routes._members._image
        image._families["live"].pop(live_key(gone.links.broker))
        for node in nodes:
            node.routes.know()
        await until(lambda: is_whole(nodes))
        nodes[0].routes.broadcast(b"still here?")
        await until(lambda: all(node.heard for node in nodes[1:]))


async def test_two_nodes_and_one_are_rings_too(tmp_path: Path) -> None:
    async with ring_of(2, tmp_path) as (one, two):
        await until(lambda: is_whole([one, two]))
        assert {(await one.routes.look_up(key)).broker for key in (0, 2**62, 2**63)} <= {1, 2}
        two.routes.broadcast(b"hello")
        await until(lambda: bool(one.heard))
    async with ring_of(1, tmp_path) as (one,):
        assert (await one.routes.look_up(5)).broker == 1
