"""Consumers over Cap'n Proto and gRPC: commit their own index, or acknowledge a shared one."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from types import SimpleNamespace
from typing import Any

from tests.faults.subscribers.subscriber import Wanted
from tests.fronts.rpc.clients import doors
from tests.fronts.rpc.contract import Row, Subscription

COMMIT_EVERY = 100
HELD = 200


class Rpc:
    """With an index of its own it commits now and then."""

    front = ""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._open = AsyncExitStack()
        self._runner = asyncio.Runner()
        self._subscription = self._runner.run(self._subscribe())

    async def _subscribe(self) -> Subscription:
        wanted = self._wanted
        address = ("127.0.0.1", wanted.ports[self.front])
        node: Any = SimpleNamespace(capnp_address=address, grpc_address=address)
        door = await self._open.enter_async_context(doors(self.front))
        client = await door.open(node)
        how: dict[str, Any] = {wanted.kind: wanted.name}
        if wanted.kind == "shared":
            how["credit"] = HELD
        return await client.subscribe(wanted.topic, **how)

    def messages(self) -> Iterator[tuple[Row, bytes]]:
        while True:
            (row,) = self._runner.run(self._subscription.take(1))
            yield row, row.value or b""

    def processed(self, token: Row) -> None:
        self._runner.run(self._settle(token))

    async def _settle(self, row: Row) -> None:
        topic = self._wanted.topic
        if self._wanted.kind == "shared":
            await self._subscription.acknowledge(topic, row)
        elif row.offset % COMMIT_EVERY == 0:
            await self._subscription.commit(topic, f"{row.partition}:{row.offset + 1}")

    def close(self) -> None:
        self._runner.run(self._open.aclose())
        self._runner.close()


class Capnp(Rpc):
    """Over Cap'n Proto."""

    front = "capnp"


class Grpc(Rpc):
    """Over gRPC."""

    front = "grpc"
