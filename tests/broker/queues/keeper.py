"""What tests of a queue's machine need around it."""

from typing import Any, cast

from pamqp import commands

from chordmq.broker.queues.arguments import read_rules
from chordmq.broker.queues.entries import Entry, Stretch
from chordmq.broker.queues.queue import Queue, QueueFacts
from chordmq.broker.queues.source import Source
from chordmq.clock import ManualClock
from chordmq.codecs.amqp.content import Envelope, read_properties


class Place:
    """A partition as far as a queue looks at it."""

    is_absent = False


HERE = cast(Any, Place())


class Keeper:
    """What a queue asks for, noted."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.dead: list[tuple[str, str]] = []
        self.alarms: list[int] = []
        self.refills = 0
        self.touches = 0

    def now_ms(self) -> int:
        return self.clock.now_ms()

    def touched(self, queue: Queue, source: Source) -> None:
        self.touches += 1

    def routed(self, partition: Any) -> int:
        return 1000

    def refill(self, queue: Queue) -> None:
        self.refills += 1

    def load(self, entry: Entry) -> bytes | None:
        return f"again {entry.offset}".encode()

    def fetch(self, queue: Queue, entry: Entry) -> None:
        raise AssertionError("all bodies are here")

    def bury(self, queue: Queue, entry: Entry, reason: str) -> None:
        self.dead.append(((entry.body or b"").decode(), reason))
        queue.finish(entry, is_unacked=False)

    def due(self, queue: Queue, at_ms: int) -> None:
        self.alarms.append(at_ms)


def made(
    kind: type[Queue] = Queue, keeper: Keeper | None = None, **arguments: Any
) -> tuple[Queue, Keeper]:
    """Return a queue with arguments written with underscores."""
    named = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    keeper = keeper or Keeper()
    queue = kind(QueueFacts(vhost="/", name="q"), read_rules(named), keeper)
    queue.sources[HERE] = Source(HERE, 0)
    return queue, keeper


def fill(queue: Queue, keeper: Keeper, *bodies: str, **properties: Any) -> None:
    """Put messages in, as a follower does."""
    source = queue.sources[HERE]
    raw = commands.Basic.Properties(**properties).marshal()
    envelope = Envelope("/", "", "q", read_properties(raw))
    offsets = range(source.next, source.next + len(bodies))
    source.take_all(offsets)
    queue.arrived(sum(map(len, bodies)), count=len(bodies))
    stretch = Stretch(source, offsets[0], envelope, [body.encode() for body in bodies])
    queue.push_stretch(stretch, keeper.now_ms())
    queue.settle_down()
