"""The gRPC front: a listener, and the library behind it that starts with the first client."""

import asyncio
import importlib
import itertools
import os
import socket
from typing import TYPE_CHECKING

from chordmq.fronts.opening import Connect, Opening
from chordmq.fronts.rpc.front import RpcFront, opened
from chordmq.fronts.rpc.relay import Relay, Unframed

if TYPE_CHECKING:
    from chordmq.fronts.grpc.server import GrpcServer


class GrpcFront:
    """Accepts clients for as long as the node runs."""

    def __init__(self, front: RpcFront) -> None:
        self.rpc = front
        self._relays: dict[str, Relay] = {}
        """Clients by the address that the library knows them by."""
        self._numbers = itertools.count()
        self._server: GrpcServer | None = None
        self._starting = asyncio.Lock()

    def connection(self) -> Relay:
        """Return what drives one more client."""
        return Relay(self.rpc.listener, self._connect, Unframed())

    def relay(self, peer: str) -> Relay | None:
        """Return the client that the library calls so."""
        return self._relays.get(peer)

    async def close(self) -> None:
        """End the library's server, after the last client."""
        if self._server is not None:
            await self._server.close()

    async def _connect(self, relay: Relay) -> socket.socket:
        """Return a socket to the library's server, which tells clients apart by its name."""
        async with self._starting:
            if self._server is None:
                self._server = await self._start()
        name = f"{self._server.name}-{next(self._numbers)}"
        peer = f"unix-abstract:{name}"
        ours = socket.socket(socket.AF_UNIX)
        try:
            ours.setblocking(False)
            ours.bind(f"\0{name}")
            self._relays[peer] = relay
            relay.on_closed = lambda: self._relays.pop(peer)
            relay.on_drain = self._server.drain
            await asyncio.get_running_loop().sock_connect(ours, f"\0{self._server.name}")
        except BaseException:
            ours.close()
            raise
        return ours

    async def _start(self) -> "GrpcServer":
        # The library's own handling of forks would hang or end programs that the node starts.
        os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
        # With the first client, for a start should take no longer than it must.
        await asyncio.to_thread(importlib.import_module, "chordmq.fronts.grpc.server")
        from chordmq.fronts.grpc.server import GrpcServer

        server = GrpcServer(self.rpc, self.relay)
        await server.open()
        return server


def open_grpc(opening: Opening) -> Connect:
    """Begin to serve clients."""
    front = GrpcFront(opened("grpc", opening))
    opening.closing.push_async_callback(front.close)
    return front.connection
