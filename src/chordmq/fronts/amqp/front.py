"""What all AMQP clients share."""

from dataclasses import field
from typing import Protocol

from chordmq.broker.broker import Broker
from chordmq.broker.presence import Client
from chordmq.broker.queues.queues import Queues
from chordmq.broker.security.auth import Authenticator
from chordmq.codecs.amqp.content import Envelope
from chordmq.dataclass import dataclass
from chordmq.fronts.amqp.settings import AmqpSettings
from chordmq.fronts.listener import Listener
from chordmq.fronts.opening import Connect
from chordmq.fronts.wire import Wire

FRONT = "amqp"
REPLY_TO = "amq.rabbitmq.reply-to"
"""A queue that is none: answers go straight to the connection that asked."""


class Replies(Protocol):
    """A channel that answers can be sent straight to."""

    def reply(self, envelope: Envelope, body: bytes) -> None:
        """Deliver an answer."""
        ...


@dataclass(slots=True, eq=False)
class AmqpFront:
    """The broker behind the listener, and its queues."""

    broker: Broker
    listener: Listener
    settings: AmqpSettings
    queues: Queues
    authenticator: Authenticator | None = None
    newer: Connect | None = None
    """Drives clients that speak AMQP 1.0 on the same listener."""
    replies: dict[str, Replies] = field(default_factory=dict)
    """Channels that wait for direct replies, by the name that they are sent to."""
    connections: dict[Client, None] = field(default_factory=dict)
    messages_in: int = 0
    messages_out: int = 0
    returned: int = 0

    def send_away(self) -> None:
        """End all connections that are served here: another node looks after the queues now."""
        for connection in list(self.listener.connections):
            if isinstance(connection, Wire):
                connection.force("another node looks after the queues now")

    def enter(self, client: Client) -> None:
        """Take note of a client that is let in."""
        self.connections[client] = None
        self.broker.presence.enter(client)

    def leave(self, client: Client) -> None:
        """Take note of a client that has gone, or never was let in."""
        if client in self.connections:
            del self.connections[client]
            self.broker.presence.leave(client)
