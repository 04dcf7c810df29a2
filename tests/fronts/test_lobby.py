"""Fronts that are opened when their first client comes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from chordmq.clock import SystemClock
from chordmq.fronts.listener import Listener, ListenerSettings
from chordmq.fronts.lobby import Lobby
from chordmq.fronts.opening import Connect
from chordmq.fronts.stream import Stream


class Echo(asyncio.Protocol):
    """Sends back what comes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)


@asynccontextmanager
async def listening(open_front: Callable[[Listener], Awaitable[Connect]]) -> AsyncIterator[int]:
    """Listen with a front that is opened late; yield the port."""
    listener = Listener(ListenerSettings(port=0), SystemClock(), "test")
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(listener.run())
        await listener.open(Lobby(listener, lambda: open_front(listener)).connect)
        yield listener.port
        await listener.close(0)
        await running


async def said(port: int, words: bytes) -> bytes:
    """Return what comes back for words that are said at once."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(words)
    try:
        return await reader.readexactly(len(words))
    finally:
        writer.close()


async def test_clients_that_come_early_are_served_when_the_front_is_open() -> None:
    """X6: what nobody uses takes no memory; who comes first waits a moment longer."""
    may_open, opened = asyncio.Event(), 0

    async def open_front(_: Listener) -> Connect:
        nonlocal opened
        opened += 1
        await may_open.wait()
        return Echo

    async with listening(open_front) as port:
        assert opened == 0
        words = [b"first" * 20_000, b"second"]
        early = [asyncio.ensure_future(said(port, word)) for word in words]
        _, gone = await asyncio.open_connection("127.0.0.1", port)
        gone.write(b"never mind")
        gone.close()
        await asyncio.sleep(0)
        may_open.set()
        assert await asyncio.gather(*early) == words
        assert await said(port, b"third") == b"third"
    assert opened == 1


async def test_a_protocol_with_a_buffer_of_its_own_gets_what_came_before_it() -> None:
    """The fronts of frames read into buffers that may be smaller than what a client said."""

    async def echo(stream: Stream) -> None:
        while frames := await stream.frames():
            for frame in frames:
                stream.write(len(frame).to_bytes(4, "big") + frame)

    async def open_front(listener: Listener) -> Connect:
        await asyncio.sleep(0)
        return lambda: Stream(listener, echo)

    async with listening(open_front) as port:
        frames = b"".join(
            size.to_bytes(4, "big") + bytes([size % 251]) * size for size in range(1, 600)
        )
        assert await said(port, frames) == frames


async def test_a_front_that_cannot_be_opened_is_tried_again() -> None:
    attempts = 0

    async def open_front(_: Listener) -> Connect:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise ImportError("a library is missing")
        return Echo

    async with listening(open_front) as port:
        with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
            await said(port, b"hello")
        assert await said(port, b"hello") == b"hello"


async def test_clients_that_wait_are_sent_away_when_the_node_stops() -> None:
    may_open = asyncio.Event()

    async def open_front(_: Listener) -> Connect:
        await may_open.wait()
        return Echo

    async with listening(open_front) as port:
        waiting = asyncio.ensure_future(said(port, b"hello"))
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_later(0.2, may_open.set)
    with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError, OSError)):
        await waiting
