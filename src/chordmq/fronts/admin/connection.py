"""Drives one HTTP client: uvicorn's HTTP/1.1 protocol behind our listener."""

import asyncio
from collections.abc import Callable
from typing import Protocol, cast

import h11
import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

from chordmq.broker.security.principal import Principal
from chordmq.fronts.listener import Connection, Listener

HEADERS_SIZE_MAX = 64 * 1024


class Successor(Connection, Protocol):
    """What goes on with a connection that leaves HTTP."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take over the transport."""
        ...

    def data_received(self, data: bytes) -> None:
        """Take bytes, the request for the change first."""
        ...


Upgrade = Callable[[str, Principal, str], Successor]
"""Makes the WebSocket protocol for the client of an address, whom its certificate names, and the
path that it asks for."""


class HttpFront:
    """What all HTTP connections of one listener share."""

    def __init__(self, listener: Listener, app: Starlette, upgrade: Upgrade | None = None) -> None:
        self.listener = listener
        self.upgrade = upgrade
        self.state = ServerState()
        self.config = uvicorn.Config(
            app,
            interface="asgi3",
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            h11_max_incomplete_event_size=HEADERS_SIZE_MAX,
        )

    def connect(self) -> "HttpConnection":
        """Return the protocol for a new client."""
        return HttpConnection(self)

    @property
    def requests(self) -> int:
        """Return how many requests were answered."""
        return self.state.total_requests


class HttpConnection(H11Protocol):
    """One client; uvicorn speaks HTTP, the listener decides who may stay and for how long."""

    def __init__(self, front: HttpFront) -> None:
        super().__init__(front.config, front.state, {})
        self._upgrade = front.upgrade
        # uvicorn only looks whether there is one.
        self.ws_protocol_class = asyncio.Protocol if front.upgrade is not None else None
        self._listener = front.listener
        self._address = ""
        self._is_admitted = False
        self._has_begun = False
        self.last_active_s = front.listener.clock.monotonic_s()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admit the client, or hang up."""
        peer = transport.get_extra_info("peername")
        self._address = peer[0] if peer else ""
        self._is_admitted = self._listener.admit(self, self._address)
        if self._is_admitted:
            # What is in this state is in that of every request of the connection.
            self.app_state["certified"] = self._listener.principal(transport)
            self.app_state["abort"] = cast(asyncio.Transport, transport).abort
            super().connection_made(cast(asyncio.Transport, transport))
        else:
            cast(asyncio.Transport, transport).abort()

    def data_received(self, data: bytes) -> None:
        """Take more of a request."""
        if not self.is_partial:
            self.last_active_s = self._listener.clock.monotonic_s()
        self._has_begun = True
        super().data_received(data)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Hand the client over, with the request that asks for it."""
        assert self._upgrade is not None
        self.connections.discard(self)
        path = event.target.partition(b"?")[0].decode("ascii", "replace")
        successor = self._upgrade(self._address, self.app_state["certified"], path)
        self._listener.replace(self, successor)
        lines = [b"%s %s HTTP/1.1" % (event.method, event.target)]
        lines += [b"%s: %s" % header for header in event.headers]
        early, _ = self.conn.trailing_data
        self.transport.set_protocol(cast(asyncio.BaseProtocol, successor))
        successor.connection_made(self.transport)
        successor.data_received(b"\r\n".join((*lines, b"", early)))

    def on_response_complete(self) -> None:
        """Wait for the next request of this client."""
        self._has_begun = False
        self.last_active_s = self._listener.clock.monotonic_s()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Count the client out."""
        if self._is_admitted:
            super().connection_lost(exc)
            self._listener.forget(self, self._address)

    @property
    def is_busy(self) -> bool:
        """Return whether a request is being answered."""
        return self._has_begun and not self.is_partial

    @property
    def is_partial(self) -> bool:
        """Return whether a request has begun and not ended."""
        cycle: RequestResponseCycle | None = self.cycle
        return self._has_begun and (cycle is None or cycle.response_complete or cycle.more_body)

    def drain(self) -> None:
        """Finish the request that has arrived and take no more."""
        self.shutdown()

    def close(self, reason: str) -> None:
        """End the connection."""
        self.transport.close()

    def resume(self) -> None:
        """Read on; HTTP counts what requests hold by itself, and refuses what is too much."""
