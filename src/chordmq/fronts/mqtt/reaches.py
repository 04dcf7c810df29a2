"""The log topics that somebody's filters may find something in."""

from collections import Counter
from collections.abc import Hashable
from typing import TypeVar

from chordmq.broker.names import Reach
from chordmq.broker.topic_names import TOPIC_LENGTH_MAX, Shape, shapes_of

Counted = TypeVar("Counted", bound=Hashable)


class Reaches:
    """What all filters reach; whether a log topic is reached costs by its name, not by these."""

    def __init__(self) -> None:
        self._counts: Counter[Reach] = Counter()
        self._named: Counter[str] = Counter()
        self._open: Counter[Shape] = Counter()
        """What log topics are called that a wildcard leaves open."""

    def __contains__(self, reach: Reach) -> bool:
        return reach in self._counts

    def add(self, reach: Reach) -> None:
        """Take note of one more filter."""
        self._counts[reach] += 1
        if self._counts[reach] == 1:
            self._named.update(reach.named)
            if reach.shape is not None:
                self._open[reach.shape] += 1

    def remove(self, reach: Reach) -> None:
        """Take note of one filter less; it may have gone before it was noted."""
        if reach in self._counts and _is_none_left(self._counts, reach):
            for topic in reach.named:
                _is_none_left(self._named, topic)
            if reach.shape is not None:
                _is_none_left(self._open, reach.shape)

    def covers(self, topic: str) -> bool:
        """Return whether some filter may find something in a log topic."""
        if topic in self._named:
            return True
        if not self._open or len(topic) == TOPIC_LENGTH_MAX:
            return bool(self._open)
        return any(shape in self._open for shape in shapes_of(topic))


def _is_none_left(counts: Counter[Counted], one: Counted) -> bool:
    """Count one less, and return whether there are none any more."""
    counts[one] -= 1
    if counts[one]:
        return False
    del counts[one]
    return True
