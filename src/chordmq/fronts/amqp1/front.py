"""What all AMQP 1.0 clients share."""

from dataclasses import field
from typing import Protocol

from chordmq.broker.broker import Broker
from chordmq.broker.presence import Client
from chordmq.broker.queues.queues import Queues
from chordmq.broker.security.auth import Authenticator
from chordmq.dataclass import dataclass
from chordmq.fronts.listener import Listener


class Limits(Protocol):
    """What can be set for all versions of AMQP."""

    @property
    def heartbeat_s(self) -> int:
        """Return how often a client must show that it is alive."""
        ...

    @property
    def channels_max(self) -> int:
        """Return how many sessions a connection may have."""
        ...

    @property
    def frame_max(self) -> int:
        """Return how many bytes a frame may have."""
        ...

    @property
    def message_size_max(self) -> int:
        """Return how many bytes a message may have."""
        ...

    @property
    def unacknowledged_max(self) -> int:
        """Return how many messages a session may hold that are not settled."""
        ...


class Served(Client, Protocol):
    """A client that may read topics."""

    def grow(self) -> None:
        """Follow partitions that were added to topics."""
        ...


@dataclass(slots=True, eq=False)
class Amqp1Front:
    """The broker behind the listener, and its queues."""

    broker: Broker
    listener: Listener
    limits: Limits
    queues: Queues
    authenticator: Authenticator | None = None
    connections: dict[Served, None] = field(default_factory=dict)
    messages_in: int = 0
    messages_out: int = 0
    released: int = 0

    def look_again(self) -> None:
        """Have clients follow partitions that were added."""
        for client in self.connections:
            client.grow()

    def enter(self, client: Served) -> None:
        """Take note of a client that is let in."""
        self.connections[client] = None
        self.broker.presence.enter(client)

    def leave(self, client: Served) -> None:
        """Take note of a client that has gone, or never was let in."""
        if client in self.connections:
            del self.connections[client]
            self.broker.presence.leave(client)
