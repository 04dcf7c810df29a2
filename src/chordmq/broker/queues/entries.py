"""Messages in a queue: one by one, or many that were published alike."""

from chordmq.broker.queues.source import Source
from chordmq.codecs.amqp.content import Envelope

NEVER = 0


class Entry:
    """A message in a queue."""

    __slots__ = (
        "body", "deliveries", "envelope", "expires_ms", "offset", "position", "priority",
        "released", "size", "source",
    )  # fmt: skip

    def __init__(self, source: Source, offset: int, envelope: Envelope, body: bytes) -> None:
        self.source = source
        self.offset = offset
        self.envelope = envelope
        self.body: bytes | None = body
        """None when it has to be read from the log again."""
        self.size = len(body)
        self.position = 0
        self.expires_ms = NEVER
        self.priority = 0
        self.deliveries = 0
        self.released = 0
        """Deliveries that were given back without having been tried."""


class Stretch:
    """Messages with one envelope at even distances in a partition, which have no expiry.

    They are delivered and acknowledged together for the price of one; whoever needs them one by one
    has entries made of them.
    """

    __slots__ = ("bodies", "deliveries", "envelope", "first", "position", "sizes", "source", "step")

    def __init__(self, source: Source, first: int, envelope: Envelope, bodies: list[bytes]) -> None:
        self.source = source
        self.first = first
        """The offset of the first message."""
        self.step = 1
        """From one message to the next, in the partition as in the queue."""
        self.envelope = envelope
        self.bodies = bodies
        """None of them when they have to be read from the log again; the list is its own."""
        self.sizes = list(map(len, bodies))
        self.position = 0
        """That of the first message in its queue."""
        self.deliveries = 0

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def offsets(self) -> range:
        """Return where the messages are."""
        return range(self.first, self.first + len(self.sizes) * self.step, self.step)

    def join(self, other: "Stretch") -> bool:
        """Take messages as well that follow these in partition and queue, if they are alike."""
        count = len(self.sizes)
        if (
            other.envelope is not self.envelope
            or other.source is not self.source
            or other.first != self.first + count
            or other.position != self.position + count
        ):
            return False
        self.bodies += other.bodies
        self.sizes += other.sizes
        return True

    def part(self, start: int, stop: int, step: int = 1) -> "Stretch":
        """Return some of the messages."""
        first = self.first + start * self.step
        found = Stretch(self.source, first, self.envelope, self.bodies[start:stop:step])
        if not found.bodies:
            found.sizes = self.sizes[start:stop:step]
        found.step = self.step * step
        found.position = self.position + start * self.step
        found.deliveries = self.deliveries
        return found

    def take(self, count: int) -> "Stretch":
        """Remove the first messages, and return them."""
        found = self.part(0, count)
        self._go_on(count)
        return found

    def take_first(self) -> Entry:
        """Remove the first message, and return it."""
        entry = self._entry(0)
        self._go_on(1)
        return entry

    def _go_on(self, count: int) -> None:
        del self.bodies[:count]
        del self.sizes[:count]
        self.first += count * self.step
        self.position += count * self.step

    def entries(self) -> list[Entry]:
        """Return the messages one by one."""
        return [self._entry(number) for number in range(len(self.sizes))]

    def _entry(self, number: int) -> Entry:
        body = self.bodies[number] if self.bodies else b""
        entry = Entry(self.source, self.first + number * self.step, self.envelope, body)
        entry.position = self.position + number * self.step
        entry.deliveries = self.deliveries
        if not self.bodies:
            entry.body, entry.size = None, self.sizes[number]
        return entry
