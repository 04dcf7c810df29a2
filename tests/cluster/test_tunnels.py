"""Streams between two nodes over a real link: in order, in windows, and gone with the link."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from chordmq.cluster.link import LinkDown
from chordmq.cluster.tunnels import WINDOW, Tunnel, Tunnels, Visitor
from tests.cluster.linked import linked, until_connected

VISITOR = Visitor("echo", "10.1.2.3", "alice")
PATIENCE_S = 60


class Talker(asyncio.Protocol):
    """Notes what happens to it."""

    def __init__(self, *, echoes: bool = False) -> None:
        self.got = bytearray()
        self.is_paused = self.is_draining = self.is_lost = False
        self.changed = asyncio.Event()
        self.transport: Tunnel
        self._echoes = echoes

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, Tunnel)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.got += data
        if self._echoes:
            self.transport.write(data)
        self.changed.set()

    def pause_writing(self) -> None:
        self.is_paused = True
        self.changed.set()

    def resume_writing(self) -> None:
        self.is_paused = False
        self.changed.set()

    def drain(self) -> None:
        self.is_draining = True
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        self.changed.set()

    async def until(self, field: str, value: object = True) -> None:
        """Wait until a field has a value, or a length."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                now = getattr(self, field)
                if (len(now) if isinstance(now, bytearray) else now) == value:
                    return
                self.changed.clear()
                await self.changed.wait()


@asynccontextmanager
async def two_nodes() -> AsyncIterator[tuple[Tunnels, Tunnels]]:
    async with linked(2) as (one, other):
        tunnels = Tunnels(one.links), Tunnels(other.links)
        await until_connected(one, other)
        yield tunnels


async def test_bytes_go_both_ways_in_their_order() -> None:
    async with two_nodes() as (near, far):
        far.serve("echo", lambda: Talker(echoes=True))
        talker = Talker()
        tunnel = near.dig(2, VISITOR, talker)
        sent = b"".join(b"%06d" % number for number in range(1000))
        for start in range(0, len(sent), 600):
            tunnel.write(sent[start : start + 600])
        await talker.until("got", len(sent))
        assert talker.got == sent


async def test_the_other_end_knows_who_has_come() -> None:
    async with two_nodes() as (near, far):
        host = Talker()
        far.serve("echo", lambda: host)
        near.dig(2, VISITOR, Talker()).write(b"x")
        await host.until("got", 1)
        assert host.transport.get_extra_info("peername") == ("10.1.2.3", 0)
        assert host.transport.get_extra_info("visitor") == VISITOR


async def test_who_does_not_read_holds_up_the_sender_of_this_stream_only() -> None:
    async with two_nodes() as (near, far):
        hosts = [Talker(), Talker()]
        waiting = iter(hosts)
        far.serve("echo", lambda: next(waiting))
        slow, quick = Talker(), Talker()
        tunnel, other = near.dig(2, VISITOR, slow), near.dig(2, VISITOR, quick)
        tunnel.write(b"1")
        await hosts[0].until("got", 1)
        hosts[0].transport.pause_reading()
        while not slow.is_paused:
            tunnel.write(b"x" * 1000)
        assert tunnel.get_write_buffer_size() > WINDOW
        other.write(b"y" * 2 * WINDOW)
        await hosts[1].until("got", 2 * WINDOW)
        assert len(hosts[0].got) == 1
        hosts[0].transport.resume_reading()
        await slow.until("is_paused", False)


async def test_a_stream_that_is_closed_brings_everything_first() -> None:
    async with two_nodes() as (near, far):
        host = Talker()
        far.serve("echo", lambda: host)
        talker = Talker()
        tunnel = near.dig(2, VISITOR, talker)
        tunnel.write(b"last words")
        tunnel.close()
        await host.until("is_lost")
        assert host.got == b"last words"
        await talker.until("is_lost")
        assert (len(near), len(far)) == (0, 0)


async def test_the_far_end_can_be_asked_to_finish() -> None:
    async with two_nodes() as (near, far):
        host = Talker()
        far.serve("echo", lambda: host)
        talker = Talker()
        near.dig(2, VISITOR, talker).drain()
        await talker.until("is_lost")
        assert host.is_draining


async def test_a_front_that_is_not_there_ends_the_stream() -> None:
    async with two_nodes() as (near, _):
        talker = Talker()
        near.dig(2, VISITOR, talker)
        await talker.until("is_lost")


async def test_all_streams_end_with_the_link() -> None:
    async with linked(2) as (one, other):
        near, far = Tunnels(one.links), Tunnels(other.links)
        far.serve("echo", lambda: Talker(echoes=True))
        await until_connected(one, other)
        talkers = [Talker() for _ in range(3)]
        for talker in talkers:
            near.dig(2, VISITOR, talker).write(b"x")
        for talker in talkers:
            await talker.until("got", 1)
        await other.close()
        for talker in talkers:
            await talker.until("is_lost")
        with pytest.raises(LinkDown):
            near.dig(2, VISITOR, Talker())
