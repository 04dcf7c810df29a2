"""A client of the gateway for tests: the `websockets` library, and our messages."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

from tests.running_node import RunningNode

JSON, MSGPACK = "chordmq.json", "chordmq.msgpack"
TIMEOUT_S = 60


class Gateway:
    """One connection."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.records: list[dict[str, Any]] = []
        self.positions: dict[str, str] = {}

    async def send(self, kind: str, **fields: Any) -> None:
        message = {"type": kind} | fields
        if self.socket.subprotocol == MSGPACK:
            await self.socket.send(msgspec.msgpack.encode(message))
        else:
            await self.socket.send(json.dumps(message))

    async def receive(self) -> dict[str, Any]:
        data = await self.socket.recv()
        told: dict[str, Any] = (
            msgspec.msgpack.decode(data) if isinstance(data, bytes) else json.loads(data)
        )
        if told["type"] == "records":
            self.records += told["records"]
            self.positions[told["topic"]] = told["position"]
        elif told["type"] == "subscribed":
            self.positions |= told["positions"]
        return told

    async def next(self, kind: str) -> dict[str, Any]:
        """Return the next message of a kind; records that come before are kept."""
        while (told := await self.receive())["type"] != kind:
            assert told["type"] in ("records", "acknowledged"), told
        return told

    async def ask(self, kind: str, answer: str, **fields: Any) -> dict[str, Any]:
        await self.send(kind, **fields)
        return await self.next(answer)

    async def publish(self, topic: str, value: Any, **fields: Any) -> dict[str, Any]:
        return await self.ask("publish", "published", topic=topic, value=value, **fields)

    async def subscribe(self, topic: str, **fields: Any) -> dict[str, Any]:
        return await self.ask("subscribe", "subscribed", **{"id": "s", "topic": topic} | fields)

    async def take(self, count: int) -> list[dict[str, Any]]:
        """Return the next records, exactly so many."""
        while len(self.records) < count:
            await self.next("records")
        taken, self.records = self.records[:count], self.records[count:]
        return taken

    async def values(self, count: int) -> list[Any]:
        return [record["value"] for record in await self.take(count)]


@asynccontextmanager
async def gateway(
    node: RunningNode, subprotocol: str = JSON, query: str = "", **more: Any
) -> AsyncIterator[Gateway]:
    """Connect, and wait until the node bids welcome."""
    url = f"ws://127.0.0.1:{node.http_address[1]}/ws{query}"
    protocols = [Subprotocol(subprotocol)] if subprotocol else None
    async with connect(
        url, subprotocols=protocols, max_size=None, open_timeout=60, **more
    ) as socket:
        client = Gateway(socket)
        assert (await client.receive())["type"] == "welcome"
        yield client
