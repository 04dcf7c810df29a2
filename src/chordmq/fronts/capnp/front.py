"""The Cap'n Proto front: a listener, and a process behind it that starts with the first client."""

import asyncio
import socket

from chordmq.codecs.capnp.framing import Framing
from chordmq.fronts.capnp.process import CapnpProcess
from chordmq.fronts.capnp.visitor import Visitor
from chordmq.fronts.opening import Connect, Opening
from chordmq.fronts.rpc.front import RpcFront, opened
from chordmq.fronts.rpc.relay import Relay

LOGIN_FRAME_SIZE_MAX = 64 * 1024
"""Bytes that a call may have before the client has logged in."""


class CapnpFront:
    """Accepts clients for as long as the node runs."""

    def __init__(self, front: RpcFront) -> None:
        self.rpc = front
        self._process: CapnpProcess | None = None
        self._starting = asyncio.Lock()

    def connection(self) -> Relay:
        """Return what drives one more client."""
        return Relay(self.rpc.listener, self._connect, Framing(LOGIN_FRAME_SIZE_MAX))

    async def close(self) -> None:
        """End the process, after the last client."""
        if self._process is not None:
            await self._process.stop()

    async def _connect(self, relay: Relay) -> socket.socket:
        """Have a client served in the process, and return the socket that leads there."""
        process = await self._running()
        visitor = Visitor(self.rpc, relay)

        def drain() -> None:
            visitor.end()
            process.finish(visitor)

        def leave() -> None:
            process.forget(visitor)
            visitor.leave()

        relay.on_drain = drain
        relay.on_closed = leave
        return process.serve(visitor)

    async def _running(self) -> CapnpProcess:
        """Return the process; start it with the first client, and again if it has failed."""
        async with self._starting:
            if self._process is not None and not self._process.is_running:
                await self._process.stop()
                self._process = None
            if self._process is None:
                settings = self.rpc.settings
                sizes = settings.frame_size_max, settings.window_bytes
                process = CapnpProcess(self.rpc.listener.tasks, *sizes)
                await process.start()
                self._process = process
            return self._process


def open_capnp(opening: Opening) -> Connect:
    """Begin to serve clients."""
    front = CapnpFront(opened("capnp", opening))
    opening.closing.push_async_callback(front.close)
    return front.connection
