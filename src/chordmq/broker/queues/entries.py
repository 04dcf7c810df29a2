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
    """Messages with one envelope that follow each other in a partition, and have no expiry.

    They are delivered and acknowledged together for the price of one; whoever needs them one by one
    has entries made of them.
    """

    __slots__ = ("bodies", "deliveries", "envelope", "first", "position", "sizes", "source")

    def __init__(self, source: Source, first: int, envelope: Envelope, bodies: list[bytes]) -> None:
        self.source = source
        self.first = first
        """The offset of the first message."""
        self.envelope = envelope
        self.bodies = bodies
        """None of them when they have to be read from the log again."""
        self.sizes = list(map(len, bodies))
        self.position = 0
        """That of the first message in its queue."""
        self.deliveries = 0

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def offsets(self) -> range:
        """Return where the messages are."""
        return range(self.first, self.first + len(self.sizes))

    def part(self, start: int, stop: int) -> "Stretch":
        """Return some of the messages."""
        found = Stretch(self.source, self.first + start, self.envelope, self.bodies[start:stop])
        found.sizes = self.sizes[start:stop]
        found.position = self.position + start
        found.deliveries = self.deliveries
        return found

    def entries(self) -> list[Entry]:
        """Return the messages one by one."""
        return [self._entry(number) for number in range(len(self.sizes))]

    def take_first(self) -> Entry:
        """Remove the first message, and return it."""
        entry = self._entry(0)
        self.bodies = self.bodies[1:]
        del self.sizes[0]
        self.first += 1
        self.position += 1
        return entry

    def _entry(self, number: int) -> Entry:
        body = self.bodies[number] if self.bodies else b""
        entry = Entry(self.source, self.first + number, self.envelope, body)
        entry.position = self.position + number
        entry.deliveries = self.deliveries
        if not self.bodies:
            entry.body, entry.size = None, self.sizes[number]
        return entry
