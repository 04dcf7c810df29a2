"""Carries one client's bytes between a listener and a library that wants sockets of its own.

So these libraries' clients are accepted, encrypted, limited, counted and sent away like all others.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Protocol, cast

from chordmq.broker.security.principal import Principal
from chordmq.errors import CannotStart, DecodeError, ShuttingDown
from chordmq.fronts.listener import Listener
from chordmq.logs import get_logger

log = get_logger(__name__)

BUFFER_HIGH = 64 * 1024


class Framing(Protocol):
    """What is known of the frames in the client's bytes."""

    size_max: int
    held: int

    def receive(self, data: bytes) -> None:
        """Take note of bytes; raise DecodeError if they cannot be frames."""
        ...


class Unframed:
    """For a library that keeps its own limits."""

    size_max = 0
    held = 0

    def receive(self, data: bytes) -> None:
        """Take everything."""


class Relay(asyncio.Protocol):
    """One client; while one side takes no more, the other is not read."""

    def __init__(
        self,
        listener: Listener,
        connect: Callable[["Relay"], Awaitable[socket.socket]],
        framing: Framing,
    ) -> None:
        """Serve the client by `connect`, which returns a socket to the library."""
        self.listener = listener
        self.framing = framing
        self.host = ""
        self.calls = 0
        """Calls and subscriptions under way."""
        self.on_drain: Callable[[], object] = lambda: None
        self.on_closed: Callable[[], object] = lambda: None
        self._connect = connect
        self._transport: asyncio.Transport
        self._inner = Inner(self)
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False
        self._is_reading = True
        self._is_waiting = False
        """For memory that other clients hold."""
        self._held = 0
        self.last_active_s = listener.clock.monotonic_s()

    def certified(self) -> Principal:
        """Return whom the client's certificate names, or ANONYMOUS."""
        return self.listener.principal(self._transport)

    def write(self, data: bytes) -> None:
        """Send bytes to the client."""
        if not self._is_closed:
            self._transport.write(data)

    def read(self) -> None:
        """Read the client if there is room for what it sends, else do not."""
        wanted = self._inner.has_room and not self._is_waiting
        if wanted != self._is_reading and not self._is_closed:
            self._is_reading = wanted
            if wanted:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    async def _run(self) -> None:
        """Connect the library; keep one client's fault from ending the listener."""
        try:
            ours = await self._connect(self)
            if self._is_closed:
                ours.close()
                return
            await asyncio.get_running_loop().create_connection(lambda: self._inner, sock=ours)
        except (CannotStart, ShuttingDown) as error:
            log.error("client cannot be served", listener=self.listener.name, reason=str(error))
            self.close(str(error))
        except Exception:
            log.exception("connection failed", listener=self.listener.name, address=self.host)
            self.close("a fault of this node")

    # What the client's transport tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admit the client, or hang up."""
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.host = peer[0] if peer else ""
        if not self.listener.admit(self, self.host):
            self._is_closed = True
            self._transport.abort()
            return
        self._transport.set_write_buffer_limits(high=BUFFER_HIGH)
        self._task = self.listener.tasks.create_task(self._run())

    def data_received(self, data: bytes) -> None:
        """Hand bytes on, unless they cannot be right."""
        if self._is_closed:
            return
        try:
            self.framing.receive(data)
        except DecodeError as error:
            log.info("connection closed", listener=self.listener.name, reason=str(error))
            self.close(str(error))
            return
        if not self.framing.held:
            self.last_active_s = self.listener.clock.monotonic_s()
        self._inner.write(data)
        self.read()
        self.account()

    def pause_writing(self) -> None:
        """Take nothing more from the library while the client does not."""
        self._inner.read(False)
        self.account()

    def resume_writing(self) -> None:
        """Go on when the client has taken what was sent."""
        self.last_active_s = self.listener.clock.monotonic_s()
        self._inner.read(True)
        self.account()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let the library know that the client has gone."""
        self._is_closed = True
        self._inner.close()
        if self._task is not None:
            self._task.cancel()
        self.listener.memory.note(self, self._held, 0)
        self._held = 0
        self.listener.forget(self, self.host)
        self.on_closed()

    # What the listener asks.

    @property
    def is_busy(self) -> bool:
        """Return whether calls or subscriptions are under way."""
        return self.calls > 0

    @property
    def is_partial(self) -> bool:
        """Return whether a frame has begun and not ended, and that is the client's doing."""
        return self._is_reading and self.framing.held > 0

    def drain(self) -> None:
        """Finish what is under way, take no more, then close."""
        self.on_drain()

    def close(self, reason: str) -> None:
        """End the connection."""
        if not self._is_closed:
            log.debug("connection closed", address=self.host, reason=reason)
            self._is_closed = True
            self._inner.close()
            self._transport.close()

    def resume(self) -> None:
        """Read again after the memory limit had stopped it."""
        self._is_waiting = False
        self.read()

    def account(self) -> None:
        """Report the memory this client holds; wait for others when there is none left."""
        if self._is_closed:
            return
        held = self.framing.held + self._inner.unsent + self._transport.get_write_buffer_size()
        if not self.listener.memory.note(self, self._held, held):
            self._is_waiting = True
            self.read()
        self._held = held


class Inner(asyncio.Protocol):
    """The side of the library."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._transport: asyncio.Transport | None = None
        self._early: list[bytes] = []
        """What came before the library was there."""
        self.has_room = False

    @property
    def unsent(self) -> int:
        """Return how many bytes the library has not taken."""
        if self._transport is None:
            return sum(map(len, self._early))
        return self._transport.get_write_buffer_size()

    def write(self, data: bytes) -> None:
        """Hand bytes to the library."""
        if self._transport is None:
            self._early.append(data)
        else:
            self._transport.write(data)

    def read(self, wanted: bool) -> None:
        """Read what the library answers, or do not."""
        if self._transport is not None and not self._transport.is_closing():
            if wanted:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to read the client."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=BUFFER_HIGH)
        self._transport.writelines(self._early)
        self._early.clear()
        self.has_room = True
        self._relay.read()

    def data_received(self, data: bytes) -> None:
        """Send the library's bytes to the client."""
        self._relay.write(data)
        self._relay.account()

    def pause_writing(self) -> None:
        """Do not read the client while the library does not take its bytes."""
        self.has_room = False
        self._relay.read()

    def resume_writing(self) -> None:
        """Go on when the library has taken them."""
        self.has_room = True
        self._relay.read()
        self._relay.account()

    def connection_lost(self, exc: Exception | None) -> None:
        """Hang up on the client when the library does."""
        self._relay.close("the library has hung up")
