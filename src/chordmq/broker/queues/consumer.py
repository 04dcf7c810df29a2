"""Who gets the messages of a queue."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from chordmq.broker.queues.entries import Entry, Stretch

if TYPE_CHECKING:
    from chordmq.broker.queues.queue import Queue


class Consumer(Protocol):
    """Somebody who gets messages."""

    priority: int
    no_ack: bool
    tag: str
    """What the client calls it."""

    @property
    def client_id(self) -> str:
        """Return the id of the client, as its presence says it."""
        ...

    @property
    def in_bulk(self) -> "BulkConsumer | None":
        """Return itself, if messages that are alike may be delivered to it together."""
        ...

    def has_room(self) -> bool:
        """Return whether it can take a message now."""
        ...

    def deliver(self, queue: "Queue", entry: Entry) -> None:
        """Take a message."""
        ...

    def cancelled(self) -> None:
        """Take note that the queue is no more."""
        ...


class Link(Protocol):
    """What the messages of one or several consumers go through."""

    def room_for(self, sizes: Sequence[int]) -> int:
        """Return how many messages of such sizes it can take now, one at least."""
        ...


class BulkConsumer(Protocol):
    """Somebody who gets many messages at once."""

    @property
    def link(self) -> Link:
        """Return what it shares with other consumers of its client."""
        ...

    @property
    def order(self) -> object:
        """Return the channel, on which messages stay in the queue's order for all its consumers."""
        ...

    def room(self) -> int:
        """Return how many messages it can take, as far as they are counted."""
        ...

    def deliver_stretch(self, queue: "Queue", stretch: Stretch) -> None:
        """Take messages that are alike."""
        ...
