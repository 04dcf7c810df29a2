"""The Cap'n Proto front: a listener, and the thread behind it that starts with the first client."""

import asyncio
import importlib.util
import socket
from typing import TYPE_CHECKING

from chordmq.codecs.capnp.framing import Framing
from chordmq.fronts.opening import Connect, Opening
from chordmq.fronts.rpc.front import RpcFront, opened
from chordmq.fronts.rpc.relay import Relay

if TYPE_CHECKING:
    from chordmq.fronts.capnp.thread import CapnpThread

LIBRARY = "capnp"
LOGIN_FRAME_SIZE_MAX = 64 * 1024
"""Bytes that a call may have before the client has logged in."""


def is_installed() -> bool:
    """Say whether the extra `chordmq[capnp]` is installed."""
    return importlib.util.find_spec(LIBRARY) is not None


class CapnpFront:
    """Accepts clients for as long as the node runs."""

    def __init__(self, front: RpcFront) -> None:
        self.rpc = front
        self._thread: CapnpThread | None = None
        self._starting = asyncio.Lock()

    def connection(self) -> Relay:
        """Return what drives one more client."""
        return Relay(self.rpc.listener, self._connect, Framing(LOGIN_FRAME_SIZE_MAX))

    async def close(self) -> None:
        """End the thread, after the last client."""
        if self._thread is not None:
            await self._thread.stop()

    async def _connect(self, relay: Relay) -> socket.socket:
        """Have a client served in the thread, and return the socket that leads there."""
        async with self._starting:
            if self._thread is None:
                self._thread = await self._start()
        # With the first client, for a start should take no longer than it must.
        from chordmq.fronts.capnp.client import Client
        from chordmq.fronts.capnp.handlers import Door

        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        client = Client(self.rpc, self._thread, relay, Door)
        self._thread.spawn(lambda: client.serve(theirs))
        return ours

    async def _start(self) -> "CapnpThread":
        await asyncio.to_thread(importlib.import_module, "chordmq.fronts.capnp.handlers")
        from chordmq.fronts.capnp.thread import CapnpThread

        thread = CapnpThread()
        await thread.start()
        return thread


def open_capnp(opening: Opening) -> Connect | None:
    """Open the front, if it is to be there."""
    rpc = opened("capnp", opening, is_installed=is_installed())
    if rpc is None:
        return None
    front = CapnpFront(rpc)
    opening.closing.push_async_callback(front.close)
    return front.connection
