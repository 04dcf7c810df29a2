"""The log topics that somebody's filters may find something in."""

from collections import Counter

from chordmq.broker.names import Reach


class Reaches:
    """What all filters reach; whether a log topic is reached costs by those with wildcards."""

    def __init__(self) -> None:
        self._counts: Counter[Reach] = Counter()
        self._named: Counter[str] = Counter()
        self._open: set[Reach] = set()
        """Those whose log topics a wildcard leaves open."""

    def __contains__(self, reach: Reach) -> bool:
        return reach in self._counts

    def add(self, reach: Reach) -> None:
        """Take note of one more filter."""
        self._counts[reach] += 1
        if self._counts[reach] == 1:
            self._named.update(reach.named)
            if reach.pattern is not None:
                self._open.add(reach)

    def remove(self, reach: Reach) -> None:
        """Take note of one filter less; it may have gone before it was noted."""
        if reach not in self._counts:
            return
        self._counts[reach] -= 1
        if self._counts[reach] == 0:
            del self._counts[reach]
            self._open.discard(reach)
            for topic in reach.named:
                self._named[topic] -= 1
                if self._named[topic] == 0:
                    del self._named[topic]

    def covers(self, topic: str) -> bool:
        """Return whether some filter may find something in a log topic."""
        return topic in self._named or any(reach.covers(topic) for reach in self._open)
