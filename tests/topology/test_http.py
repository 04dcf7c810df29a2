"""The small HTTP client: answers, connections that break, and servers that are not there."""

import asyncio

import pytest

from chordmq.topology.http import HttpClient, Unreachable


async def request_of(reader: asyncio.StreamReader) -> bytes:
    return await reader.readuntil(b"\r\n\r\n")


async def test_a_connection_is_used_again_and_opened_anew_when_it_broke() -> None:
    connections = 0
    left = asyncio.Semaphore(0)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        for body in (b"one", b"two"):
            request = await request_of(reader)
            assert b"authorization: Bearer secret" in request
            head = f"HTTP/1.1 200 OK\r\nX-Name: v\r\ncontent-length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
        writer.close()
        await writer.wait_closed()
        left.release()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        client = HttpClient(address(server), "secret")
        first = await client.ask("GET", "/", timeout_s=60)
        assert (first.status, first.headers["x-name"]) == (200, "v")
        assert first.body == b"one"
        assert (await client.ask("GET", "/", timeout_s=60)).body == b"two"
        assert connections == 1
        with pytest.raises(Unreachable):
            await client.ask("GET", "/", timeout_s=60)
        assert (await client.ask("GET", "/", timeout_s=60)).body == b"one"
        assert (await client.ask("GET", "/", timeout_s=60)).body == b"two"
        client.close()
        await left.acquire()
        await left.acquire()


async def test_who_does_not_answer_or_speaks_otherwise_is_unreachable() -> None:
    async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 smtp ready\r\n\r\n")
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = address(server)
        with pytest.raises(Unreachable):
            await HttpClient(url).ask("GET", "/", timeout_s=60)
    with pytest.raises(Unreachable):
        await HttpClient(url).ask("GET", "/", timeout_s=60)


def address(server: asyncio.Server) -> str:
    return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
