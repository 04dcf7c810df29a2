"""Clients of both procedure-call fronts, opened and closed alike."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import capnp

from tests.fronts.capnp.client import open_capnp
from tests.fronts.grpc.client import open_grpc
from tests.fronts.rpc.contract import TIMEOUT_S, Address, Client, Login
from tests.running_node import RunningNode


class Doors:
    """Opens clients of one front, and closes them."""

    def __init__(self, front: str, stack: AsyncExitStack) -> None:
        self.front = front
        self._stack = stack

    def address(self, node: RunningNode) -> Address:
        """Return where the front listens."""
        return node.capnp_address if self.front == "capnp" else node.grpc_address

    async def open(self, node: RunningNode, login: Login | None = None) -> Client:
        """Connect to a node; raise Refused if it does not let the client in."""
        opening = open_capnp if self.front == "capnp" else open_grpc
        async with asyncio.timeout(TIMEOUT_S):
            client: Client = await opening(self.address(node), login)
        self._stack.push_async_callback(client.close)
        return client


@asynccontextmanager
async def doors(front: str) -> AsyncIterator[Doors]:
    """Give clients of a front; those that are left open are closed."""
    async with AsyncExitStack() as stack:
        if front == "capnp":
            await stack.enter_async_context(capnp.kj_loop())
        yield Doors(front, stack)
