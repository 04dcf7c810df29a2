"""Accepts connections on one address and keeps them within the node's limits."""

import asyncio
import contextlib
import socket
from collections import Counter
from collections.abc import Callable
from dataclasses import field
from typing import ClassVar, Protocol

from chordmq.broker.security.principal import ANONYMOUS, Principal
from chordmq.clock import Clock
from chordmq.dataclass import dataclass
from chordmq.errors import InvalidSetting
from chordmq.fronts.certificates import Certificates, TlsSettings
from chordmq.fronts.handshake import BACKLOG, TlsServer
from chordmq.logs import get_logger

log = get_logger(__name__)

SWEEP_INTERVAL_S = 5.0
PENALTY_MAX_S = 1.0
TURNED_AWAY_MAX = 1_000
"""Clients that are kept waiting for their refusal; more are refused at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSettings:
    """Where a front listens, and how much its clients may hold."""

    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 for all of the machine."""
    port: int = 9092
    """Port to listen on; 0 takes any that is free."""
    advertised_host: str = ""
    """The name clients are told to connect to; empty means `host`."""
    advertised_port: int = 0
    """The port clients are told to connect to; 0 means the one that is open."""
    connections_max: int = 20_000
    """Clients that may be connected at a time."""
    connections_per_address_max: int = 20_000
    """How many of them from one address."""
    frame_size_max: int = 100 * 1024 * 1024
    """Bytes that one request or packet may have."""
    idle_timeout_s: float = 600.0
    """How long a client may be silent before it is disconnected."""
    partial_frame_timeout_s: float = 30.0
    """How long a request that has begun to come in may take to be whole."""
    memory_max: int = 256 * 1024 * 1024
    """Bytes that all connections together may hold in frames and unsent answers."""
    tls: TlsSettings = field(default_factory=TlsSettings)
    alpn: ClassVar[tuple[str, ...]] = ()
    """The protocols that clients can agree upon in the TLS handshake (RFC 7301)."""


class Connection(Protocol):
    """What the listener needs of a connection."""

    last_active_s: float

    @property
    def is_busy(self) -> bool:
        """Return whether a request is being worked on or an answer is not sent yet."""
        ...

    @property
    def is_partial(self) -> bool:
        """Return whether a frame has begun and not ended."""
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


class Memory:
    """A bound on the bytes that connections hold; who comes too late waits for the others.

    One connection at a time may exceed the bound. Without it, connections that each wait for the
    others' memory with half a frame of their own would wait for ever.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._favoured: Connection | None = None
        self._waiting: dict[Connection, None] = {}

    @property
    def free(self) -> int:
        """Return the bytes that may still be taken."""
        return max(0, self.limit - self.used)

    def note(self, connection: Connection, before: int, now: int) -> bool:
        """Count what a connection holds now instead of before; return whether it may read on."""
        if now > before:
            self.used += now - before
            if self.used > self.limit and not self._may_exceed(connection):
                return False
        elif now < before:
            self._give(before - now)
        if not now:
            self._leave(connection)
        return True

    def _give(self, size: int) -> None:
        """Count bytes back, and let those who wait go on when there is room again."""
        self.used -= size
        assert self.used >= 0
        while self._waiting and self.used < self.limit:
            connection = next(iter(self._waiting))
            del self._waiting[connection]
            connection.resume()

    def _may_exceed(self, connection: Connection) -> bool:
        """Return whether the connection may go on beyond the limit; if not, it is resumed later."""
        if self._favoured is None:
            self._favoured = connection
        if self._favoured is connection:
            return True
        self._waiting[connection] = None
        return False

    def _leave(self, connection: Connection) -> None:
        """Take note that the connection holds nothing; the next one in the row is favoured."""
        self._waiting.pop(connection, None)
        if self._favoured is connection:
            self._favoured = None
            if self._waiting and self.used >= self.limit:
                self._favoured = next(iter(self._waiting))
                del self._waiting[self._favoured]
                self._favoured.resume()


class Listener:
    """One listening socket: admission, idle time-outs, draining."""

    def __init__(self, settings: ListenerSettings, clock: Clock, name: str) -> None:
        self.settings = settings
        self.clock = clock
        self.name = name
        self.memory = Memory(settings.memory_max)
        self.connections: set[Connection] = set()
        self.accepted = 0
        self.refused = 0
        self.port = settings.port
        tls = settings.tls
        self.certificates = Certificates(tls, settings.alpn) if tls.is_on else None
        self.handshakes_failed = 0
        self.connection_wait_s: Callable[[str], float] = lambda _: 0.0
        """Counts a connection from an address, and returns for how long there may be no more."""
        self.tasks: asyncio.TaskGroup
        self._penalty_s = 0.0
        self._turned_away: set[asyncio.TimerHandle] = set()
        self._per_address: Counter[str] = Counter()
        self._server: asyncio.Server | TlsServer | None = None
        self._is_running = False
        self._empty = asyncio.Event()
        self._closed = asyncio.Event()

    @property
    def advertised(self) -> tuple[str, int]:
        """Return the host and port that clients should use."""
        return (
            self.settings.advertised_host or self.settings.host,
            self.settings.advertised_port or self.port,
        )

    @property
    def is_closed(self) -> bool:
        """Return whether all connections are closed, and no more are taken."""
        return self._closed.is_set()

    async def open(self, connect: Callable[[], asyncio.BaseProtocol]) -> None:
        """Begin to listen; each client gets a protocol from `connect`."""
        if self.certificates is not None:
            self._server = TlsServer(self, self.certificates, connect)
            await self._server.open(self.settings.host, self.settings.port)
            if self._is_running:
                self._server.start()
        else:
            self._server = await self._open_plain(connect)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _open_plain(self, connect: Callable[[], asyncio.BaseProtocol]) -> asyncio.Server:
        loop, host, port = asyncio.get_running_loop(), self.settings.host, self.settings.port
        if not _is_address(host):
            return await loop.create_server(
                connect, host, port, backlog=BACKLOG, reuse_address=True
            )
        opened = socket.create_server((host, port), backlog=BACKLOG)
        return await loop.create_server(connect, sock=opened, backlog=BACKLOG)

    async def run(self) -> None:
        """Own the connections' tasks until closed; sweep idle connections meanwhile."""
        async with asyncio.TaskGroup() as self.tasks:
            self._is_running = True
            if isinstance(self._server, TlsServer) and self._server.sockets:
                self._server.start()
            while not self._closed.is_set():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._closed.wait(), SWEEP_INTERVAL_S)
                self.sweep()
                await self.reload_certificates()

    async def reload_certificates(self) -> None:
        """Take new certificates into use if their files have changed; a broken one is refused."""
        if self.certificates is None:
            return
        try:
            if await asyncio.to_thread(self.certificates.reload):
                log.info("certificate reloaded", listener=self.name, **self.certificates.facts)
        except InvalidSetting as error:
            log.error(
                "certificate refused; the old one stays", listener=self.name, reason=str(error)
            )

    def principal(self, transport: asyncio.BaseTransport) -> Principal:
        """Return the user that the client's certificate names, or nobody in particular."""
        visitor = transport.get_extra_info("visitor")
        if visitor is not None:  # it has shown its certificate to another node
            return ANONYMOUS if visitor.user == ANONYMOUS.name else Principal(visitor.user)
        if self.certificates is None:
            return ANONYMOUS
        return self.certificates.principal(transport.get_extra_info("peercert"))

    def has_room(self, address: str) -> bool:
        """Return whether one more client may come, those counted who still agree on keys."""
        self._penalty_s = self.connection_wait_s(address)
        if self._penalty_s > 0:
            self.refused += 1
            log.warning("connection refused", listener=self.name, address=address, reason="quota")
            return False
        settings = self.settings
        handshakes = self._server.under_way if isinstance(self._server, TlsServer) else Counter()
        if (
            len(self.connections) + handshakes.total() < settings.connections_max
            and self._per_address[address] + handshakes[address]
            < settings.connections_per_address_max
        ):
            return True
        self.refused += 1
        log.warning(
            "connection refused",
            listener=self.name,
            address=address,
            open=len(self.connections),
            open_from_address=self._per_address[address],
        )
        return False

    def admit(self, connection: Connection, address: str) -> bool:
        """Count a new connection in, or refuse it because a limit is reached."""
        if self.certificates is None and not self.has_room(address):
            return False
        self.accepted += 1
        self.connections.add(connection)
        self._per_address[address] += 1
        return True

    def turn_away(self, hang_up: Callable[[], None]) -> None:
        """Hang up on a client that was not admitted: on one that comes too often after a while.

        Clients that were hung up on at once would come again at once.
        """
        if self._penalty_s <= 0 or len(self._turned_away) >= TURNED_AWAY_MAX:
            hang_up()
            return

        def end() -> None:
            self._turned_away.discard(timer)
            hang_up()

        penalty_s = min(self._penalty_s, PENALTY_MAX_S)
        timer = asyncio.get_running_loop().call_later(penalty_s, end)
        self._turned_away.add(timer)

    def replace(self, connection: Connection, successor: Connection) -> None:
        """Let another protocol go on with a connection."""
        self.connections.remove(connection)
        self.connections.add(successor)

    def forget(self, connection: Connection, address: str) -> None:
        """Count a connection out."""
        if connection in self.connections:
            self.connections.discard(connection)
            self._per_address[address] -= 1
            if not self._per_address[address]:
                del self._per_address[address]
            self._report_if_empty()

    async def close(self, timeout_s: float) -> None:
        """Stop accepting, let requests under way finish, then close what is left."""
        self._empty.clear()
        if self._server is not None:
            self._server.close()
        for connection in list(self.connections):
            connection.drain()
        self._report_if_empty()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._empty.wait(), timeout_s)
        for connection in list(self.connections):
            connection.close("the node is shutting down")
        self._closed.set()

    def _report_if_empty(self) -> None:
        if not self.connections:
            self._empty.set()

    def sweep(self) -> None:
        """Close connections that were idle, or stuck in the middle of a request, for too long."""
        now = self.clock.monotonic_s()
        for connection in list(self.connections):
            idle_s = now - connection.last_active_s
            if connection.is_partial and idle_s > self.settings.partial_frame_timeout_s:
                connection.close("a request was begun and not finished in time")
            elif idle_s > self.settings.idle_timeout_s and not connection.is_busy:
                connection.close("idle")


def _is_address(host: str) -> bool:
    """Return whether this is four numbers, which need not be looked up, for that takes threads."""
    try:
        socket.inet_pton(socket.AF_INET, host)
    except OSError:
        return False
    return True
