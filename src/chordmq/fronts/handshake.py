"""A connection while both sides agree on keys: counted, timed, and handed on once it is safe."""

import asyncio
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import structlog

from chordmq.fronts.certificates import Certificates

if TYPE_CHECKING:
    from chordmq.fronts.listener import Listener

log = structlog.get_logger(__name__)


class Handshake(asyncio.Protocol):
    """One client before TLS is established; it counts like any other connection meanwhile."""

    is_busy = False
    is_partial = True

    def __init__(
        self,
        listener: "Listener",
        certificates: Certificates,
        connect: Callable[[], asyncio.BaseProtocol],
    ) -> None:
        self._listener = listener
        self._certificates = certificates
        self._connect = connect
        self._transport: asyncio.Transport
        self._address = ""
        self.last_active_s = listener.clock.monotonic_s()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admit the client and begin, or hang up."""
        self._transport = cast(asyncio.Transport, transport)
        # Nothing is read until TLS reads it.
        self._transport.pause_reading()
        peer = transport.get_extra_info("peername")
        self._address = peer[0] if peer else ""
        if self._listener.admit(self, self._address):
            self._listener.tasks.create_task(self._run())
        else:
            self._transport.abort()

    def drain(self) -> None:
        """Take no more."""
        self.close("the node is shutting down")

    def close(self, reason: str) -> None:
        """End the connection."""
        self._transport.abort()

    def resume(self) -> None:
        """Go on; the memory limit never stops a handshake."""

    async def _run(self) -> None:
        early = Early()
        try:
            secured = await asyncio.get_running_loop().start_tls(
                self._transport,
                early,
                self._certificates.context,
                server_side=True,
                ssl_handshake_timeout=self._certificates.handshake_timeout_s,
            )
        except (OSError, ssl.SSLError) as error:
            self._listener.forget(self, self._address)
            self._listener.handshakes_failed += 1
            log.info("TLS handshake failed", address=self._address, reason=_reason(error))
            self._transport.abort()
            return
        self._listener.forget(self, self._address)
        if secured is None or early.is_lost:
            return
        protocol = self._connect()
        secured.set_protocol(protocol)
        protocol.connection_made(secured)
        early.hand_on(protocol, secured)


class Early(asyncio.Protocol):
    """Keeps what a client sends in the same breath as the end of its handshake."""

    def __init__(self) -> None:
        self._data: list[bytes] = []
        self.is_lost = False

    def data_received(self, data: bytes) -> None:
        """Keep the bytes."""
        self._data.append(data)

    def eof_received(self) -> bool:
        """Close when the client does."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Remember that the client is gone."""
        self.is_lost = True

    def hand_on(self, protocol: asyncio.BaseProtocol, transport: asyncio.Transport) -> None:
        """Give the bytes to the protocol that they were meant for."""
        for data in self._data:
            if isinstance(protocol, asyncio.BufferedProtocol):
                _fill(protocol, data)
            elif not transport.is_closing():
                cast(asyncio.Protocol, protocol).data_received(data)


def _fill(protocol: asyncio.BufferedProtocol, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        room = memoryview(protocol.get_buffer(len(rest)))
        size = min(len(room), len(rest))
        room[:size] = rest[:size]
        protocol.buffer_updated(size)
        rest = rest[size:]


def _reason(error: Exception) -> str:
    """Return why no keys were agreed upon, in OpenSSL's words where it has any."""
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).lower().replace("_", " ")
    return str(error) or type(error).__name__
