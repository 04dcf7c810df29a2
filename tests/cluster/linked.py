"""Nodes of one process that are nothing but their links, over real sockets."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

from chordmq.client.connection import Address
from chordmq.clock import SystemClock
from chordmq.cluster.links import Links, Place
from chordmq.fronts.listener import Listener
from chordmq.fronts.peer.connection import PeerConnection
from chordmq.fronts.peer.settings import PeerSettings


class Linked:
    """One node: its links, and the listener where the others reach it."""

    def __init__(self, broker: int, settings: PeerSettings, cluster: str = "cluster") -> None:
        clock = SystemClock()
        self.links = Links(cluster, broker, f"uuid-{broker}", clock, settings.context)
        self.links.begin(100 + broker)
        self.listener = Listener(settings, clock, "peer")
        self._settings = settings
        self._running: list[asyncio.Task[None]] = []

    @property
    def place(self) -> Place:
        return Place(Address(*self.listener.advertised), self.links.hello().epoch)

    async def open(self) -> None:
        await self.listener.open(lambda: PeerConnection(self.links, self.listener, self._settings))
        for work in (self.listener.run(), self.links.run()):
            self._running.append(asyncio.ensure_future(work))
        await asyncio.sleep(0)

    async def close(self) -> None:
        running, self._running = self._running, []
        if running:
            await self.listener.close(1)
            running[1].cancel()
            await asyncio.wait(running)


@asynccontextmanager
async def linked(
    count: int, settings: PeerSettings | None = None, *, follow: bool = True
) -> AsyncIterator[list[Linked]]:
    """Run nodes 1 to `count` that know each other, if wanted."""
    plain = replace(settings or PeerSettings(), port=0)
    nodes = [Linked(broker, plain) for broker in range(1, count + 1)]
    async with AsyncExitStack() as stack:
        for node in nodes:
            await node.open()
            stack.push_async_callback(node.close)
        if follow:
            introduce(nodes)
        yield nodes


def introduce(nodes: list[Linked]) -> None:
    """Have every node know all of them, as the cluster's store would tell."""
    places = {node.links.broker: node.place for node in nodes}
    for node in nodes:
        node.links.follow(places)


async def until_connected(one: Linked, other: Linked) -> None:
    """Wait until both can ask each other."""
    async with asyncio.timeout(60):
        await one.links.peers[other.links.broker].is_up.wait()
        await other.links.peers[one.links.broker].is_up.wait()
