"""What every broker can do behind the IoT layer: publish, and hand out what a filter matches.

A subscription reads with an index that has a name. Its own: one reader at a time, who gets
everything in order. Shared: any number of readers, each message for one of them. What was handed
out and not accepted comes again, here or to somebody else.
"""

import uuid
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import field
from enum import StrEnum
from typing import Protocol

from chordmq.dataclass import dataclass
from chordmq.records.record import Headers


class ClientType(StrEnum):
    """Who reads, and so how long a broker remembers where."""

    SERVICE = "service"
    """A program of the company's own: for as long as there is the broker."""
    DEVICE = "device"
    """Comes back within days."""
    BROWSER = "browser"
    """Wants what happens from now on; nothing is kept when it goes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message under a hierarchical name; one that comes twice has the same id."""

    name: str
    value: bytes | None
    key: bytes | None = None
    """What keeps its order; the third level of the name if not said."""
    headers: Headers = ()
    timestamp_ms: int = 0
    id: str = field(default_factory=lambda: uuid.uuid4().hex)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """What somebody reads, and with which index; a new one begins with what comes next."""

    filter: str
    index: str
    is_shared: bool = False
    credit: int = 1_000
    """Messages that may be handed out without having been accepted."""
    client: ClientType = ClientType.SERVICE


@dataclass(frozen=True, slots=True, eq=False)
class Delivery:
    """A message that was handed out, and what its driver knows it by."""

    message: Message
    place: object


class Inbox(Protocol):
    """An open subscription."""

    async def take(self, timeout_s: float) -> list[Delivery]:
        """Return what has come; wait for something, or return nothing when the time is over."""
        ...

    async def accept(self, deliveries: Sequence[Delivery]) -> None:
        """Take note that messages are processed: they do not come again."""
        ...

    async def release(self, deliveries: Sequence[Delivery]) -> None:
        """Give messages back, to be handed out again."""
        ...


class MessageBrokerAdapter(AbstractAsyncContextManager["MessageBrokerAdapter"], Protocol):
    """A broker, open within its block; connects when it has to. Its methods raise DriverErrors."""

    async def publish(self, messages: Sequence[Message]) -> None:
        """Return when the broker has stored all of them, in their order."""
        ...

    def subscribed(self, subscription: Subscription) -> AbstractAsyncContextManager[Inbox]:
        """Read for the length of a block; what is not accepted then comes again."""
        ...
