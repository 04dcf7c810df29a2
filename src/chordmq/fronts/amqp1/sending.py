"""Links on which a queue's messages go to a client, as its credit allows."""

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from chordmq.broker.queues.entries import Entry
from chordmq.broker.queues.queue import Queue
from chordmq.broker.queues.translation import message_of
from chordmq.codecs.amqp1 import values
from chordmq.codecs.amqp1.composites import (
    Accepted,
    Error,
    Flow,
    Modified,
    Rejected,
    Transfer,
)
from chordmq.codecs.amqp1.sections import write_message
from chordmq.errors import DecodeError
from chordmq.fronts.amqp1.errors import DELETED, NOT_ALLOWED, LinkFault

if TYPE_CHECKING:
    from chordmq.fronts.amqp1.session import Session

MASK = 2**32 - 1
CACHED = 1024


@lru_cache(maxsize=CACHED)
def origin(exchange: str, key: str) -> bytes:
    """Return the annotations that say where a message was published."""
    pairs = (("x-exchange", exchange), ("x-routing-key", key))
    return b"".join(values.symbol(name) + values.text(value) for name, value in pairs)


class Credit:
    """How many messages a client may still be sent on a link."""

    def __init__(self) -> None:
        self.left = 0
        self.is_draining = False
        self.count = 0
        """Messages sent, and credit that was given up."""

    def update(self, flow: Flow) -> None:
        """Take what the client says."""
        seen = 0 if flow.delivery_count is None else flow.delivery_count
        left = (seen + (flow.link_credit or 0) - self.count) & MASK
        self.left = left if left < 2**31 else 0
        self.is_draining = flow.drain

    def spend(self) -> None:
        """Count one message."""
        self.left -= 1
        self.count = (self.count + 1) & MASK

    def give_up(self) -> bool:
        """Let go of what is left if the client wants that; return whether it has to be told."""
        if not self.is_draining:
            return False
        self.is_draining = False
        self.count = (self.count + self.left) & MASK
        self.left = 0
        return True


class QueueLink:
    """A consumer of a queue."""

    def __init__(
        self, session: "Session", handle: int, queue: Queue, *, settled: bool, priority: int = 0
    ) -> None:
        self.session = session
        self.handle = handle
        self.queue = queue
        self.no_ack = settled
        self.in_bulk = None
        self.priority = priority
        self.tag = ""
        self.default_outcome: Any = None
        self._credit = Credit()

    @property
    def client_id(self) -> str:
        """Return the id of the client."""
        return self.session.connection.number

    @property
    def queue_name(self) -> str | None:
        """Return the name of the queue."""
        return self.queue.name

    # What the queue asks.

    def has_room(self) -> bool:
        """Return whether the client can take one message more."""
        if self._credit.left <= 0:
            return False
        if self.session.has_room:
            return True
        self.session.wait_for_window(self)
        return False

    def deliver(self, queue: Queue, entry: Entry) -> None:
        """Send a message."""
        self._credit.spend()
        envelope, failures = entry.envelope, entry.deliveries - 1 - entry.released
        try:
            data = write_message(
                message_of(envelope, entry.body or b""),
                origin(envelope.exchange, envelope.key),
                failures,
                is_first=entry.deliveries == 1,
            )
        except DecodeError:  # what only claims to be a message of AMQP 1.0 goes as it is
            data = b"\x00\x53\x75" + values.binary(entry.body or b"")
        self.session.deliver(self, self.handle, data, None if self.no_ack else entry)
        if self.no_ack:
            queue.finish(entry)
        else:
            entry.body = None  # read again if it comes back

    def cancelled(self) -> None:
        """Tell the client that the queue is no more."""
        error = Error(condition=DELETED, description=f"queue '{self.queue.name}' was deleted")
        self.session.end_link(self.handle, error)

    # What the session asks.

    async def transfer(self, transfer: Transfer, payload: bytes) -> None:
        """Refuse messages: this link goes the other way."""
        raise LinkFault(NOT_ALLOWED, "the client is the receiver of this link")

    def flow(self, flow: Flow) -> None:
        """Take note of the client's credit, and use it."""
        self._credit.update(flow)
        self.thirst()
        if flow.echo and not flow.drain:
            self._tell()

    def thirst(self) -> None:
        """Deliver what is there, and give up credit that the client does not want kept."""
        self.queue.pump(may_wait=not self._credit.is_draining)
        if self._credit.is_draining and (not self._credit.left or self.session.has_room):
            self._credit.give_up()
            self._tell(drain=True)

    def _tell(self, *, drain: bool = False) -> None:
        flow = self.session.flow_state()
        flow.handle, flow.delivery_count = self.handle, self._credit.count
        flow.link_credit, flow.available, flow.drain = self._credit.left, self.queue.ready, drain
        self.session.send(flow)

    def settle(self, settled: list[tuple[int, Any]], state: Any) -> None:
        """Do with messages what the client wants."""
        entries: list[Entry] = [entry for _, entry in settled]
        outcome = state if state is not None else self.default_outcome
        queue = self.queue
        if queue.is_deleted:
            return
        if isinstance(outcome, Accepted):
            for entry in entries:
                queue.finish(entry)
        elif isinstance(outcome, Rejected) or (
            isinstance(outcome, Modified) and outcome.undeliverable_here
        ):
            for entry in entries:
                queue.reject(entry)
        else:
            if not (isinstance(outcome, Modified) and outcome.delivery_failed):
                for entry in entries:
                    entry.released += 1
            queue.requeue(entries)
        self.session.connection.thirsty[queue] = None

    def close(self, unsettled: list[Any]) -> None:
        """End, and give back what the client has not settled."""
        self.session.connection.front.queues.leave(self.queue, self)
        if not self.queue.is_deleted and unsettled:
            self.queue.requeue(unsettled)
