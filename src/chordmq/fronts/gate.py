"""The way in to a cluster at any node: a client is served here, or carried to the node that does.

Which node that is, the client's first bytes say. From then on a gate only passes everything on, to
a connection of this node or to another node through a tunnel.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, cast

from chordmq.broker.security.principal import ANONYMOUS, Principal
from chordmq.cluster.link import LinkDown
from chordmq.cluster.tunnels import Tunnel, Tunnels, Visitor
from chordmq.errors import ChordMQError
from chordmq.fronts.listener import Listener
from chordmq.logs import get_logger

log = get_logger(__name__)

FIRST_BYTES_TIMEOUT_S = 10.0
WRITE_BUFFER_HIGH = 64 * 1024
ATTEMPTS = 50
ATTEMPT_INTERVAL_S = 0.1

Find = Callable[[], Awaitable[int | None]]
"""Returns the number of the node that serves a client; None for this one."""
Ask = Callable[[bytes], Find | None]
"""Takes bytes of a client; as soon as they are enough, returns how to find its node."""


class Transport(Protocol):
    """What carries a client's bytes."""

    def write(self, data: bytes) -> None:
        """Send bytes."""
        ...

    def close(self) -> None:
        """Close when everything is sent."""
        ...

    def abort(self) -> None:
        """Close at once."""
        ...

    def pause_reading(self) -> None:
        """Take no more bytes."""
        ...

    def resume_reading(self) -> None:
        """Take bytes again."""
        ...

    def get_write_buffer_size(self) -> int:
        """Return how many bytes are not sent yet."""
        ...


class Served(Protocol):
    """A client's connection, as the gate passes things on to it."""

    last_active_s: float

    @property
    def is_busy(self) -> bool:
        """Return whether a request is being worked on or an answer is not sent yet."""
        ...

    @property
    def is_partial(self) -> bool:
        """Return whether a frame has begun and not ended."""
        ...

    def begin(self, transport: Transport, host: str, certified: Principal) -> None:
        """Serve a client that is admitted."""
        ...

    def data_received(self, data: bytes) -> None:
        """Take bytes."""
        ...

    def pause_writing(self) -> None:
        """Send no more for now."""
        ...

    def resume_writing(self) -> None:
        """Send again."""
        ...

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        ...

    def drain(self) -> None:
        """Finish the requests that have arrived, take no more, then close."""
        ...

    def close(self, reason: str) -> None:
        """End the connection."""
        ...

    def resume(self) -> None:
        """Read again after the memory limit had stopped it."""
        ...


class FarEnd(asyncio.Protocol):
    """Brings to a client what the other node sends through the tunnel."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Bring bytes."""
        self._transport.write(data)

    def pause_writing(self) -> None:
        """Take no more of the client while the other node is behind."""
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Go on."""
        self._transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Hang up."""
        self._transport.close()

    def drain(self) -> None:
        """Hang up: the other node stops."""
        self._transport.close()


class Relay:
    """Carries one client to another node."""

    is_busy = True
    is_partial = False

    def __init__(self, tunnels: Tunnels, broker: int, front: str) -> None:
        self.last_active_s = 0.0
        self._tunnels = tunnels
        self._broker = broker
        self._front = front
        self._tunnel: Tunnel

    def begin(self, transport: Transport, host: str, certified: Principal) -> None:
        """Dig the tunnel; raise LinkDown if there is no way now."""
        visitor = Visitor(self._front, host, certified.name)
        self._tunnel = self._tunnels.dig(self._broker, visitor, FarEnd(transport))

    def data_received(self, data: bytes) -> None:
        """Carry bytes to the other node."""
        self._tunnel.write(data)

    def pause_writing(self) -> None:
        """Bring no more while the client does not take it."""
        self._tunnel.pause_reading()

    def resume_writing(self) -> None:
        """Go on."""
        self._tunnel.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the other node that the client has gone."""
        self._tunnel.close()

    def drain(self) -> None:
        """Have the other node say goodbye."""
        self._tunnel.drain()

    def close(self, reason: str) -> None:
        """End the connection."""
        self._tunnel.close()

    def resume(self) -> None:
        """Let it be: a relay holds no more than its window."""


class Gate(asyncio.Protocol):
    """One client that has come to this node."""

    def __init__(
        self,
        listener: Listener,
        tunnels: Tunnels,
        front: str,
        ask: Ask,
        serve: Callable[[], Served],
    ) -> None:
        self._listener = listener
        self._tunnels = tunnels
        self._front = front
        self._ask = ask
        self._serve = serve
        self._served: Served | None = None
        self._transport: Transport
        self._stream: asyncio.Transport | None = None
        """The transport itself, unless the bytes come inside of something else."""
        self._host = ""
        self._certified = ANONYMOUS
        self._first: list[bytes] = []
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_writable = True
        self._is_closed = False
        self._last_active_s = listener.clock.monotonic_s()

    # What the transport tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admit the client, or hang up."""
        stream = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        host = peer[0] if peer else ""
        if not self._listener.admit(self, host):
            self._is_closed = True
            stream.abort()
            return
        stream.set_write_buffer_limits(high=WRITE_BUFFER_HIGH, low=0)
        self._stream = stream
        self.begin(stream, host, self._listener.principal(transport))

    def begin(self, transport: Transport, host: str, certified: Principal) -> None:
        """Wait for the first bytes."""
        self._transport, self._host, self._certified = transport, host, certified
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(FIRST_BYTES_TIMEOUT_S, self._too_late)

    def data_received(self, data: bytes) -> None:
        """Pass bytes on, once it is clear to whom."""
        self._last_active_s = self._listener.clock.monotonic_s()
        if self._served is not None:
            self._served.data_received(data)
            return
        self._first.append(data)
        if self._task is None:
            find = self._ask(data)
            if find is not None:
                self._stop_timer()
                self._transport.pause_reading()
                self._task = self._listener.tasks.create_task(self._enter(find))

    def pause_writing(self) -> None:
        """Pass it on."""
        self._is_writable = False
        if self._served is not None:
            self._served.pause_writing()

    def resume_writing(self) -> None:
        """Pass it on."""
        self._is_writable = True
        if self._served is not None:
            self._served.resume_writing()

    def eof_received(self) -> bool:
        """Close when the client does."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass it on, and count the client out."""
        self._is_closed = True
        self._stop_timer()
        if self._task is not None:
            self._task.cancel()
        if self._served is not None:
            self._served.connection_lost(exc)
        self._listener.forget(self, self._host)

    # Which way it goes.

    async def _enter(self, find: Find) -> None:
        """Begin to serve the client, here or elsewhere."""
        relay = await self._way_out(find)
        self._task = None
        if self._is_closed:
            return
        served: Served = relay if relay is not None else self._begin_here()
        self._served = served
        self._transport.resume_reading()
        if not self._is_writable:
            served.pause_writing()
        first, self._first = b"".join(self._first), []
        served.data_received(first)

    def _begin_here(self) -> Served:
        served = self._serve()
        if self._stream is not None:  # the gate is not needed any more
            self._listener.replace(self, served)
            self._stream.set_protocol(cast(asyncio.BaseProtocol, served))
        served.begin(self._transport, self._host, self._certified)
        return served

    async def _way_out(self, find: Find) -> Relay | None:
        """Return what carries the client to its node; None if that is this one."""
        for _ in range(ATTEMPTS):
            try:
                node = await find()
                if node is None:
                    return None
                relay = Relay(self._tunnels, node, self._front)
                relay.begin(self._transport, self._host, self._certified)
            except LinkDown:
                await asyncio.sleep(ATTEMPT_INTERVAL_S)  # until there is a link, or another node
            except ChordMQError as error:
                log.info("no node serves the client", listener=self._front, reason=str(error))
                break
            else:
                return relay
        return None  # this node tells the client so, in words of its protocol

    def _too_late(self) -> None:
        self._transport.abort()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    # What the listener asks.

    @property
    def last_active_s(self) -> float:
        """Return when the client was heard last."""
        return self._last_active_s

    @last_active_s.setter
    def last_active_s(self, value: float) -> None:
        self._last_active_s = value

    @property
    def is_busy(self) -> bool:
        """Return whether somebody works for the client."""
        return self._task is not None or (self._served is not None and self._served.is_busy)

    @property
    def is_partial(self) -> bool:
        """Return whether something has begun and not ended."""
        return self._served is not None and self._served.is_partial

    def drain(self) -> None:
        """Pass it on, or hang up."""
        if self._served is not None:
            self._served.drain()
        else:
            self._transport.close()

    def close(self, reason: str) -> None:
        """Pass it on, or hang up."""
        if self._served is not None:
            self._served.close(reason)
        else:
            self._transport.close()

    def resume(self) -> None:
        """Pass it on."""
        if self._served is not None:
            self._served.resume()
