"""What all clients of the WebSocket gateway share."""

import asyncio
from collections.abc import Callable
from dataclasses import field
from typing import Protocol

from chordmq.broker.appends import Appends
from chordmq.broker.broker import Broker
from chordmq.broker.feed import Feed, Found, write_position
from chordmq.broker.names import NAME_HEADER, Names, is_wanted, name_of, without_name
from chordmq.broker.presence import Client
from chordmq.broker.security.auth import Authenticator
from chordmq.codecs.texts import Shown
from chordmq.codecs.websocket.subprotocols import SUBPROTOCOLS, Subprotocol
from chordmq.dataclass import dataclass
from chordmq.fronts.listener import Listener
from chordmq.fronts.websocket.settings import WebSocketSettings
from chordmq.records.record import Record

RECORDS_AT_ONCE = 1_000
BYTES_AT_ONCE = 128 * 1024
PAGES_MAX = 64


@dataclass(frozen=True, slots=True)
class View:
    """What one subscription wants to see of a log topic, and how."""

    topic: str
    filter: str
    """Empty for everything."""
    subprotocol: Subprotocol
    shown: Shown

    def show(self, partition: int, record: Record, deliveries: int = 0) -> bytes:
        """Return a record as it stands in a message; its name is not among its headers."""
        name = ""
        if self.filter or any(header[0] == NAME_HEADER for header in record.headers):
            name = name_of(self.topic, record)
            record = record._replace(headers=without_name(record.headers))
        return self.subprotocol.from_record(partition, record, name, self.shown, deliveries)

    def wants(self, record: Record) -> bool:
        """Return whether a record's name is asked for."""
        return not self.filter or is_wanted(self.filter, self.topic, record)


@dataclass(frozen=True, slots=True)
class Page:
    """The next records of a feed, as all who are at its place get them."""

    count: int
    tail: bytes
    offsets: dict[int, int]


Place = tuple[View, int, tuple[tuple[int, int], ...]]


class Connection(Client, Protocol):
    """What the front needs of a connection."""

    def look_again(self) -> None:
        """Follow a change of topics or permissions."""
        ...

    def drain(self) -> None:
        """Finish, and close."""
        ...


@dataclass(slots=True, eq=False)
class WebSocketFront:
    """The broker behind the gateway, and the numbers of the clients in front of it."""

    broker: Callable[[], Broker]
    """Returns the broker, or raises ShuttingDown while there is none to serve clients."""
    listener: Listener
    settings: WebSocketSettings
    names: Names
    authenticator: Callable[[], Authenticator | None] = lambda: None
    is_closed: bool = False
    """Whether everybody has to log in."""
    knows_name: Callable[[str], bool] = lambda host: True
    """Says whether the node may be asked for by this name."""
    appends: Appends = field(default_factory=Appends)
    subprotocols: dict[str, Subprotocol] = field(
        default_factory=lambda: {name: kind() for name, kind in SUBPROTOCOLS.items()}
    )
    connections: dict[Connection, Broker] = field(default_factory=dict)
    messages_in: int = 0
    messages_out: int = 0
    dropped: int = 0
    _pages: dict[Place, Page] = field(default_factory=dict)

    def enter(self, connection: Connection, broker: Broker) -> None:
        """Take note of a client that is let in."""
        self.connections[connection] = broker
        broker.presence.enter(connection)

    def leave(self, connection: Connection) -> None:
        """Take note of a client that has gone, or never was let in."""
        broker = self.connections.pop(connection, None)
        if broker is not None:
            broker.presence.leave(connection)
            authenticator = self.authenticator()
            if authenticator is not None:
                authenticator.logins.release(connection)

    def look_again(self) -> None:
        """Have all clients follow a change of topics or permissions."""
        for connection in list(self.connections):
            connection.look_again()

    def close(self) -> None:
        """Send all clients away."""
        for connection in list(self.connections):
            connection.drain()

    def page(self, feed: Feed, view: View, count_max: int) -> Page:
        """Return the next records of a feed and move past them; raise OffsetOutOfRange at a gap.

        Who asks the same in the same turn of the event loop gets the same bytes: what is pushed to
        many is read and written once.
        """
        place = (view, count_max, tuple(feed.offsets.items()))
        page = self._pages.get(place)
        if page is None:
            page = self._read(feed, view, count_max)
            if not self._pages:
                asyncio.get_running_loop().call_soon(self._pages.clear)
            if len(self._pages) < PAGES_MAX:
                self._pages[place] = page
        else:
            feed.offsets = dict(page.offsets)
        return page

    def _read(self, feed: Feed, view: View, count_max: int) -> Page:
        found: list[Found] = feed.take(count_max, BYTES_AT_ONCE)
        shown = [view.show(*one) for one in found if view.wants(one.record)]
        position = write_position(feed.offsets)
        tail = view.subprotocol.records_tail(view.topic, position, shown) if shown else b""
        return Page(len(shown), tail, dict(feed.offsets))
