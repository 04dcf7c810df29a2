"""The names of log topics in order, by their beginnings and by their ends.

What a filter with wildcards may find something in begins with its first level or ends with its
second, and so lies side by side in one of the two orders: finding it costs by what is found.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

DOT, AFTER_DOT = ".", "/"
TOPIC_LENGTH_MAX = 249
"""Log topics of this length may stand for longer levels, which only a header knows."""


class Shape(NamedTuple):
    """What log topics are called, where a wildcard leaves a level of their names open."""

    prefix: str = ""
    """The first level and the dot behind it; empty if any will do."""
    suffix: str = ""
    """The dot and the second level; empty if any will do."""
    is_alone: bool = False
    """Whether the first level without a second will do, too."""

    @property
    def is_any(self) -> bool:
        """Return whether all log topics are called so."""
        return self.is_alone and not self.prefix

    def fits(self, name: str) -> bool:
        """Return whether a log topic is called so."""
        if self.is_any or len(name) == TOPIC_LENGTH_MAX:
            return True
        if DOT in name and name.startswith(self.prefix) and name.endswith(self.suffix):
            return True
        return self.is_alone and name == self.prefix[:-1]


def shapes_of(name: str) -> Iterator[Shape]:
    """Yield all shapes that a name has, but for what its length may hide."""
    yield Shape(is_alone=True)
    yield Shape(name + DOT, is_alone=True)
    if DOT in name:
        yield Shape()
    at = name.find(DOT)
    while at >= 0:
        yield Shape(name[: at + 1])
        yield Shape(name[: at + 1], is_alone=True)
        yield Shape(suffix=name[at:])
        at = name.find(DOT, at + 1)


class TopicNames:
    """The names of all log topics, kept as these come and go."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._folded: dict[str, str] = {}
        self._plain: dict[str, None] = {}
        """Those without a dot."""
        self._forwards: list[str] = []
        self._backwards: list[str] = []
        """Those with a dot in order, and the same read from their ends."""
        self._longest: dict[str, None] = {}
        for name in names:
            self.add(name)

    def __contains__(self, name: str) -> bool:
        at = bisect_left(self._forwards, name)
        return name in self._plain or self._forwards[at : at + 1] == [name]

    def add(self, name: str) -> None:
        """Take note of a new log topic."""
        self._folded[_folded(name)] = name
        if len(name) == TOPIC_LENGTH_MAX:
            self._longest[name] = None
        if DOT in name:
            insort(self._forwards, name)
            insort(self._backwards, name[::-1])
        else:
            self._plain[name] = None

    def remove(self, name: str) -> None:
        """Forget a log topic that was there."""
        self._folded.pop(_folded(name), None)
        self._longest.pop(name, None)
        if DOT in name:
            del self._forwards[bisect_left(self._forwards, name)]
            del self._backwards[bisect_left(self._backwards, name[::-1])]
        else:
            del self._plain[name]

    def twin_of(self, name: str) -> str | None:
        """Return the log topic that keeps another from having this name, if there is one."""
        return self._folded.get(_folded(name))

    def matching(self, shape: Shape) -> Iterable[str]:
        """Return the log topics that are called so, each once."""
        if shape.is_any:
            return [*self._plain, *self._forwards]
        if shape.suffix:
            turned = _beginning_with(self._backwards, shape.suffix[::-1])
            found = [name[::-1] for name in turned]
        else:
            found = [*_beginning_with(self._forwards, shape.prefix)]
        alone = shape.prefix[:-1]
        if shape.is_alone and alone in self:
            found.append(alone)
        return dict.fromkeys((*found, *self._longest))


def _beginning_with(names: list[str], prefix: str) -> Sequence[str]:
    """Return those of some names in order that begin with a text and a dot; all, if with none."""
    if not prefix:
        return names
    return names[bisect_left(names, prefix) : bisect_left(names, prefix[:-1] + AFTER_DOT)]


def _folded(name: str) -> str:
    # Metric names turn '.' into '_', so two topics must not differ in that alone.
    return name.replace(DOT, "_")
