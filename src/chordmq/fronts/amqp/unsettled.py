"""Messages that a client has and has not settled, in the order of their tags."""

import math
from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from chordmq.broker.queues.entries import Stretch

if TYPE_CHECKING:
    from chordmq.broker.queues.queue import Queue
    from chordmq.fronts.amqp.channel import ChannelConsumer
    from chordmq.fronts.amqp.streams import StreamConsumer


class Span:
    """One message, or a stretch of messages whose tags follow each other."""

    __slots__ = ("consumer", "first", "held", "last", "queue")

    def __init__(
        self,
        first: int,
        held: Any,
        queue: "Queue | StreamConsumer",
        consumer: "ChannelConsumer | StreamConsumer | None",
    ) -> None:
        self.first = first
        self.last = first + len(held) - 1 if isinstance(held, Stretch) else first
        self.held = held
        """What the queue knows one message by, or a stretch of them."""
        self.queue = queue
        self.consumer = consumer
        """Who has got it; None for what was asked for by basic.get."""

    def __len__(self) -> int:
        return self.last - self.first + 1

    def messages(self) -> list[Any]:
        """Return what the queue knows each of the messages by."""
        return self.held.entries() if isinstance(self.held, Stretch) else [self.held]

    def take_first(self) -> "Span":
        """Remove the first of several messages, and return it."""
        found = Span(self.first, self.held.take_first(), self.queue, self.consumer)
        self.first += 1
        return found

    def part(self, first: int, last: int) -> "Span":
        """Return some of the messages, by their tags."""
        if first == self.first and last == self.last:
            return self
        held = self.held.part(first - self.first, last - self.first + 1)
        return Span(first, held, self.queue, self.consumer)


class Unsettled:
    """What a channel's client has got."""

    def __init__(self) -> None:
        self._spans: list[Span] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def first(self) -> float:
        """Return the lowest tag; infinity if there is none."""
        return self._spans[0].first if self._spans else math.inf

    def __contains__(self, tag: int) -> bool:
        return self._index(tag) is not None

    def add(self, span: Span) -> None:
        """Take note of what was delivered; its tags come after all others."""
        self._spans.append(span)
        self._count += len(span)

    def take(self, tag: int) -> Span | None:
        """Remove one message; None if it is not there."""
        index = self._index(tag)
        if index is None:
            return None
        span = self._spans[index]
        self._count -= 1
        if tag == span.first < span.last:
            return span.take_first()
        rest = [span.part(span.first, tag - 1)] if tag > span.first else []
        rest += [span.part(tag + 1, span.last)] if tag < span.last else []
        self._spans[index : index + 1] = rest
        return span.part(tag, tag)

    def take_until(self, tag: int) -> list[Span]:
        """Remove all messages up to a tag."""
        end = bisect_right(self._spans, tag, key=_first)
        found = self._spans[:end]
        del self._spans[:end]
        if found and found[-1].last > tag:
            span = found[-1]
            found[-1] = span.part(span.first, tag)
            self._spans.insert(0, span.part(tag + 1, span.last))
        self._count -= sum(map(len, found))
        return found

    def take_all(self) -> list[Span]:
        """Remove all messages."""
        found, self._spans, self._count = self._spans, [], 0
        return found

    def _index(self, tag: int) -> int | None:
        index = bisect_right(self._spans, tag, key=_first) - 1
        return index if index >= 0 and tag <= self._spans[index].last else None


def _first(span: Span) -> int:
    return span.first
