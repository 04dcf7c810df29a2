"""Who is connected: the clients of those fronts whose connections last."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol


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


class Client(Protocol):
    """A connection that can say whose it is."""

    def facts(self) -> ClientFacts:
        """Return what is known of the client now."""
        ...


class Presence:
    """The clients that are there; each front tells of its own."""

    def __init__(self) -> None:
        self._clients: dict[Client, None] = {}

    def __iter__(self) -> Iterator[ClientFacts]:
        return iter([client.facts() for client in self._clients])

    def __len__(self) -> int:
        return len(self._clients)

    def enter(self, client: Client) -> None:
        """Take note of a client that has come."""
        self._clients[client] = None

    def leave(self, client: Client) -> None:
        """Take note of a client that has gone, or never was there."""
        self._clients.pop(client, None)
