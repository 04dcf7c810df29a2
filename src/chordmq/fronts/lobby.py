"""Opens a front when its first client comes, and lets clients wait until it is open.

A front that nobody uses takes no memory, and a node is ready sooner.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

from chordmq.fronts.listener import Connection, Listener
from chordmq.fronts.opening import Connect
from chordmq.logs import get_logger

log = get_logger(__name__)


class Lobby:
    """Stands in for a front until that is open, and for its protocol until there is one."""

    def __init__(self, listener: Listener, open_front: Callable[[], Awaitable[Connect]]) -> None:
        self._listener = listener
        self._open_front = open_front
        self._connect: Connect | None = None
        self._guests: list[Guest] = []

    def connect(self) -> asyncio.BaseProtocol:
        """Return what drives the next client, or keeps it until it can be driven."""
        return self.receive() if self._connect is None else self._connect()

    def receive(self, address: str = "") -> "Guest":
        """Return what keeps a client until the front is open."""
        if not self._guests:
            self._listener.tasks.create_task(self._open())
        self._guests.append(Guest(self._listener, address))
        return self._guests[-1]

    async def _open(self) -> None:
        try:
            self._connect = await self._open_front()
        except Exception:
            log.exception("front cannot be opened", listener=self._listener.name)
        guests, self._guests = self._guests, []
        for guest in guests:
            self._let_in(guest)

    def _let_in(self, guest: "Guest") -> None:
        if self._connect is None or self._listener.is_closed:
            guest.turn_away()
            return
        try:
            guest.enter(self._connect())
        except Exception:  # as the event loop does with what a protocol raises
            log.exception("connection failed", listener=self._listener.name)
            guest.turn_away()


class Guest(asyncio.Protocol):
    """A client that has come too early; it may be one that another protocol was spoken with."""

    is_busy = False
    is_partial = True

    def __init__(self, listener: Listener, address: str) -> None:
        self.last_active_s = listener.clock.monotonic_s()
        self._listener = listener
        self._address = address
        self._transport: asyncio.Transport | None = None
        self._protocol: asyncio.BaseProtocol | None = None
        self._received: list[bytes] = []
        self._is_unwanted = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the client, unless the front was open meanwhile."""
        self._transport = cast(asyncio.Transport, transport)
        if self._is_unwanted:
            self._transport.abort()
        elif self._protocol is not None:
            self.enter(self._protocol)

    def data_received(self, data: bytes) -> None:
        """Keep what came, and take no more."""
        assert self._transport is not None
        self._received.append(data)
        self._transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the client."""
        self._transport = None
        self._listener.forget(self, self._address)

    def enter(self, protocol: asyncio.BaseProtocol) -> None:
        """Have the client served."""
        self._protocol = protocol
        transport = self._transport
        if transport is None or self._is_unwanted:
            return
        if self in self._listener.connections:
            self._listener.replace(self, cast(Connection, protocol))
        transport.resume_reading()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        if self._received and not transport.is_closing():
            feed(protocol, b"".join(self._received))

    def turn_away(self) -> None:
        """Hang up."""
        self._is_unwanted = True
        if self._transport is not None:
            self._transport.abort()

    def drain(self) -> None:
        """Hang up, for nothing was asked yet."""
        self.turn_away()

    def close(self, reason: str) -> None:
        """Hang up."""
        self.turn_away()

    def resume(self) -> None:
        """Let it be: a guest reads nothing more."""


def feed(protocol: asyncio.BaseProtocol, data: bytes) -> None:
    """Give a protocol bytes that came before it was there."""
    if not isinstance(protocol, asyncio.BufferedProtocol):
        cast(asyncio.Protocol, protocol).data_received(data)
        return
    while data:
        buffer = memoryview(cast(memoryview, protocol.get_buffer(len(data)))).cast("B")
        size = min(len(buffer), len(data))
        buffer[:size] = data[:size]
        protocol.buffer_updated(size)
        data = data[size:]
