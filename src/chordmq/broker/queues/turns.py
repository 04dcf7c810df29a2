"""Whose turn it is among the consumers of a queue."""

from collections.abc import Sequence
from itertools import compress, cycle

from chordmq.broker.queues.consumer import BulkConsumer, Consumer, Link

FEW = 4
"""Messages that each consumer gets at least of those that are dealt out together."""


class Turns:
    """Consumers that get one message after the other: those of the highest priority with room."""

    def __init__(self, consumers: list[Consumer], *, single_active: bool) -> None:
        self._consumers = consumers
        self._single_active = single_active
        self._next = 0
        """The place of the consumer that is asked first."""

    @property
    def is_alone(self) -> bool:
        """Return whether one consumer gets all messages."""
        return self._single_active or len(self._consumers) == 1

    def chosen(self) -> Consumer | None:
        """Return who gets the next message, and go on to the one behind."""
        consumers = self._consumers
        if self.is_alone:
            return consumers[0] if consumers and consumers[0].has_room() else None
        best: Consumer | None = None
        turn = self._next
        count = len(consumers)
        for number in range(count):
            place = (self._next + number) % count
            consumer = consumers[place]
            if (best is None or consumer.priority > best.priority) and consumer.has_room():
                best = consumer
                turn = place + 1
        self._next = turn
        return best

    def dealt(self, sizes: Sequence[int]) -> tuple[list[BulkConsumer], int]:
        """Return who gets messages of such sizes in turns, and how many all together.

        The first is who was chosen last, and the turn goes on as if they had got them one by one.
        Nobody is returned if the messages must go one by one, or do so for less.
        """
        chosen = self._consumers[0 if self.is_alone else self._next - 1].in_bulk
        if chosen is None:
            return [], 0
        if self.is_alone:
            return [chosen], _fitting([chosen], sizes)
        if len(sizes) < FEW or chosen.room() < FEW:
            return [], 0
        places = self._circle(len(sizes) // FEW + 1)
        circle = [one for place in places if (one := self._consumers[place].in_bulk) is not None]
        if len({one.order for one in circle}) < len(places):  # or some take no more than one
            return [], 0
        count = _fitting(circle, sizes)
        if count < FEW * len(places):
            return [], 0
        self._next = places[(count - 1) % len(places)] + 1
        return circle, count

    def _circle(self, count: int) -> list[int]:
        """Return the places of those who take turns from the chosen one on, so many at most."""
        consumers, start = self._consumers, self._next - 1
        priority = consumers[start].priority
        places = [start]
        for number in range(start + 1, start + len(consumers)):
            if len(places) == count:
                break
            place = number % len(consumers)
            if consumers[place].priority == priority and consumers[place].has_room():
                places.append(place)
        return places


def _fitting(circle: list[BulkConsumer], sizes: Sequence[int]) -> int:
    """Return how many messages consumers can take in turns until one of them is full."""
    around = len(circle)
    count = min(len(sizes), min([one.room() for one in circle]) * around)
    by_link: dict[Link, list[int]] = {}
    for number, one in enumerate(circle):
        by_link.setdefault(one.link, []).append(number)
    for link, numbers in by_link.items():
        if len(numbers) == 1:
            passing = sizes[numbers[0] : count : around]
        else:
            theirs = set(numbers)
            mask = [number in theirs for number in range(around)]
            passing = list(compress(sizes[:count], cycle(mask)))
        room = link.room_for(passing)
        if room < len(passing):
            count = room // len(numbers) * around
    return count
