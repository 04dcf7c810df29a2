"""Accepts TLS connections: counted and timed while keys are agreed upon, then handed on."""

import asyncio
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any

from chordmq.fronts.certificates import Certificates
from chordmq.logs import get_logger

if TYPE_CHECKING:
    from chordmq.fronts.listener import Listener

BACKLOG = 4096
ACCEPT_PAUSE_S = 1.0
"""How long nothing is accepted after the system has refused to, for lack of open files."""

log = get_logger(__name__)


class TlsServer:
    """The listening sockets of a TLS listener.

    The certificate of the moment is asked for each connection, so that a new one needs no restart;
    and a client that never ends its handshake holds a place like any other connection, for a while.
    """

    def __init__(
        self,
        listener: "Listener",
        certificates: Certificates,
        connect: Callable[[], asyncio.BaseProtocol],
    ) -> None:
        self.sockets: list[socket.socket] = []
        self.under_way: Counter[str] = Counter()
        """Handshakes by address."""
        self._listener = listener
        self._certificates = certificates
        self._connect = connect
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self, host: str, port: int) -> None:
        """Listen on every address that the host has; with port 0 on one port for all."""
        loop = asyncio.get_running_loop()
        flags = socket.AI_PASSIVE
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
        try:
            self._bind(dict.fromkeys((family, place) for family, _, _, _, place in found))
        except OSError:
            for one in self.sockets:
                one.close()
            raise

    def start(self) -> None:
        """Begin to accept those who have come and will come."""
        for one in self.sockets:
            self._run(self._accept(one))

    def close(self) -> None:
        """Accept nobody any more, and drop those whose handshake is not over."""
        for task in self._tasks:
            task.cancel()

    def _bind(self, places: Iterable[tuple[int, Any]]) -> None:
        for family, place in places:
            if self.sockets:
                place = (place[0], self.sockets[0].getsockname()[1], *place[2:])
            self.sockets.append(socket.socket(family, socket.SOCK_STREAM))
            opened = self.sockets[-1]
            opened.setblocking(False)
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            opened.bind(place)
            opened.listen(BACKLOG)

    def _run(self, work: Coroutine[None, None, None]) -> None:
        task = self._listener.tasks.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with listening:
            while True:
                try:
                    client, place = await loop.sock_accept(listening)
                except OSError as error:
                    log.error("cannot accept connections", reason=error.strerror)
                    await asyncio.sleep(ACCEPT_PAUSE_S)
                    continue
                if self._listener.has_room(place[0]):
                    self._run(self._shake_hands(client, place[0]))
                else:
                    self._listener.turn_away(client.close)

    async def _shake_hands(self, client: socket.socket, address: str) -> None:
        self.under_way[address] += 1
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._connect,
                client,
                ssl=self._certificates.context,
                ssl_handshake_timeout=self._certificates.handshake_timeout_s,
            )
        except OSError as error:
            self._listener.handshakes_failed += 1
            log.info("TLS handshake failed", address=address, reason=_reason(error))
        finally:
            self.under_way[address] -= 1
            if not self.under_way[address]:
                del self.under_way[address]


def _reason(error: OSError) -> str:
    """Return why no keys were agreed upon, in OpenSSL's words where it has any."""
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.lower().replace("_", " ")
    return str(error) or type(error).__name__
