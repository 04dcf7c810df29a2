"""Who is connected: the clients of those fronts whose connections last."""

from collections.abc import Callable, Iterator
from typing import Protocol

from chordmq.dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFacts:
    """What is known of a client while it is connected."""

    id: str
    name: str
    """What the client calls itself."""
    protocol: str
    user: str
    host: str
    connected_ms: int
    subscriptions: list[str]
    channels: int = 0
    """How many channels or sessions it has open, where the protocol has any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerFacts:
    """What a client that is connected consumes, and how far it is."""

    client: str
    """The id of the client."""
    name: str
    protocol: str
    user: str
    host: str
    topic: str
    group: str
    index: str
    """`own`: it gets every message; `shared`: each message goes to one of the group."""
    credit: int
    """Messages that may be without acknowledgement; 0 if it acknowledges none."""
    unacknowledged: int
    delivered: int
    lag: int
    offsets: dict[str, int]
    """The next offset in each partition."""


class Client(Protocol):
    """A connection that can say whose it is."""

    def facts(self) -> ClientFacts:
        """Return what is known of the client now."""
        ...


class RemoteConsumer(Protocol):
    """A connection that can say what it consumes."""

    def consumption(self) -> ConsumerFacts:
        """Return what the client consumes now, and how far it is."""
        ...


class Presence:
    """The clients that are there; each front tells of its own."""

    def __init__(self) -> None:
        self._clients: dict[Client, str] = {}
        """With what they called themselves when they came."""
        self._consumers: dict[RemoteConsumer, None] = {}
        self.watchers: list[Callable[[str, bool], None]] = []
        """Told by name of each client that comes (True) or goes."""

    def __iter__(self) -> Iterator[ClientFacts]:
        return iter([client.facts() for client in self._clients])

    def __len__(self) -> int:
        return len(self._clients)

    def enter(self, client: Client) -> None:
        """Take note of a client that has come."""
        name = self._clients[client] = client.facts().name
        for watcher in self.watchers:
            watcher(name, True)

    def leave(self, client: Client) -> None:
        """Take note of a client that has gone, or never was there."""
        name = self._clients.pop(client, None)
        if name is not None:
            for watcher in self.watchers:
                watcher(name, False)

    def consumers(self) -> list[ConsumerFacts]:
        """Return what all consumers that are connected read now."""
        return [consumer.consumption() for consumer in self._consumers]

    def subscribe(self, consumer: RemoteConsumer) -> None:
        """Take note of a client that has begun to consume."""
        self._consumers[consumer] = None

    def unsubscribe(self, consumer: RemoteConsumer) -> None:
        """Take note of a client that consumes no more, or never did."""
        self._consumers.pop(consumer, None)
