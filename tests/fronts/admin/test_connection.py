"""HTTP behind the node's listener, over real sockets."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from chordmq.clock import ManualClock
from chordmq.fronts.admin.connection import HttpFront
from chordmq.fronts.listener import Listener, ListenerSettings

GET = b"GET /%s HTTP/1.1\r\nHost: node\r\n\r\n"


class Site:
    """A listener with an application whose answers a test can hold back."""

    def __init__(self, settings: ListenerSettings) -> None:
        self.clock = ManualClock()
        self.listener = Listener(settings, self.clock, "http")
        self.entered = asyncio.Event()
        self.release = asyncio.Event()
        routes = [Route("/now", self._now), Route("/later", self._later)]
        self.front = HttpFront(self.listener, Starlette(routes=routes))

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.listener.port)

    async def _now(self, _request: Request) -> Response:
        return PlainTextResponse("now")

    async def _later(self, _request: Request) -> Response:
        self.entered.set()
        await self.release.wait()
        return PlainTextResponse("later")


@asynccontextmanager
async def serving(connections_max: int = 100) -> AsyncIterator[Site]:
    site = Site(ListenerSettings(port=0, connections_max=connections_max))
    await site.listener.open(site.front.connect)
    async with asyncio.TaskGroup() as group:
        group.create_task(site.listener.run())
        try:
            yield site
        finally:
            site.release.set()
            await site.listener.close(timeout_s=0)


async def answer(reader: asyncio.StreamReader) -> str:
    """Read one answer and return its body."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(line for line in head.split(b"\r\n") if line.startswith(b"content-length:"))
    return (await reader.readexactly(int(length.split()[1]))).decode()


async def until(condition: Callable[[], bool]) -> None:
    """Let the event loop turn until the condition holds."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0)


async def test_a_connection_serves_one_request_after_the_other() -> None:
    async with serving() as site:
        reader, writer = await site.connect()
        for _ in range(2):
            writer.write(GET % b"now")
            assert await answer(reader) == "now"
        assert site.front.requests == 2
        assert len(site.listener.connections) == 1
        writer.close()


async def test_a_connection_over_the_limit_is_refused() -> None:
    """C11: the HTTP listener has the same limits as the others."""
    async with serving(connections_max=1) as site:
        reader, writer = await site.connect()
        writer.write(GET % b"now")
        assert await answer(reader) == "now"
        second, second_writer = await site.connect()
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await answer(second)
        assert site.listener.refused == 1
        writer.close()
        second_writer.close()


async def test_draining_finishes_the_request_under_way() -> None:
    """C13: a request that has arrived is answered; then the connection ends."""
    async with serving() as site, asyncio.TaskGroup() as group:
        reader, writer = await site.connect()
        writer.write(GET % b"later")
        await site.entered.wait()
        group.create_task(site.listener.close(timeout_s=60))
        await asyncio.sleep(0)
        site.release.set()
        assert await answer(reader) == "later"
        assert await reader.read() == b""
        writer.close()


async def test_draining_closes_idle_connections_at_once() -> None:
    async with serving() as site:
        reader, writer = await site.connect()
        writer.write(GET % b"now")
        await answer(reader)
        await site.listener.close(timeout_s=60)
        assert await reader.read() == b""
        writer.close()


@pytest.mark.parametrize("part", [b"GET /now HT", b"PUT /now HTTP/1.1\r\nHost: n\r\ncontent-len"])
async def test_a_request_that_is_not_finished_in_time_ends_its_connection(part: bytes) -> None:
    async with serving() as site:
        reader, writer = await site.connect()
        writer.write(part)
        await until(lambda: any(c.is_partial for c in site.listener.connections))
        site.clock.advance(31_000)
        site.listener.sweep()
        assert await reader.read() == b""
        writer.close()


@pytest.mark.parametrize(
    "data",
    [b"\x00\x00\x00\x14 this is Kafka", b"GET /" + b"x" * 100_000, b"\r\n" * 9 + b"?\r\n\r\n"],
    ids=["kafka", "endless", "nonsense"],
)
async def test_what_is_not_http_ends_only_its_own_connection(data: bytes) -> None:
    async with serving() as site:
        good, good_writer = await site.connect()
        bad, bad_writer = await site.connect()
        bad_writer.write(data)
        assert b"400" in await bad.read()
        good_writer.write(GET % b"now")
        assert await answer(good) == "now"
        good_writer.close()
        bad_writer.close()
