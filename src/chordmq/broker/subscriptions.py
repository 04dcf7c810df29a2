"""Filters over hierarchical names, and a tree that finds whose filters match a name.

Levels are separated by `/`. `+` stands for one level, `#` at the end for all that follow and for
the level before it. A name that begins with `$` is matched by no filter that begins otherwise.
"""

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from chordmq.errors import InvalidPattern, InvalidTopicName

SEPARATOR, ONE, REST = "/", "+", "#"
NAME_BYTES_MAX = 65_535
LEVELS_MAX = 128

Subscriber = TypeVar("Subscriber", bound=Hashable)


def has_wildcard(text: str) -> bool:
    """Return whether a text is a filter for more than one name."""
    return ONE in text or REST in text


def check_name(name: str) -> None:
    """Raise InvalidTopicName unless messages can be published under the name."""
    if has_wildcard(name):
        raise InvalidTopicName(f"{name[:100]!r} has a wildcard; names have none")
    fault = _fault(name)
    if fault:
        raise InvalidTopicName(f"{name[:100]!r} {fault}")


def check_filter(text: str) -> None:
    """Raise InvalidPattern unless the text is a filter."""
    fault = _fault(text)
    levels = text.split(SEPARATOR)
    if any(has_wildcard(level) and len(level) > 1 for level in levels):
        fault = "has a wildcard that shares its level"
    elif REST in levels[:-1]:
        fault = f"has {REST} before its end"
    if fault:
        raise InvalidPattern(f"{text[:100]!r} {fault}")


def _fault(text: str) -> str:
    if not text:
        return "is empty"
    if "\0" in text:
        return "has a null character"
    if text.count(SEPARATOR) >= LEVELS_MAX:
        return f"has more than {LEVELS_MAX} levels"
    if len(text.encode(errors="surrogatepass")) > NAME_BYTES_MAX:
        return f"is longer than {NAME_BYTES_MAX} bytes"
    return ""


def matches(wanted: str, name: str) -> bool:
    """Return whether a filter matches a name."""
    if name.startswith("$") and not wanted.startswith("$"):
        return False
    filters, levels = wanted.split(SEPARATOR), name.split(SEPARATOR)
    for at, level in enumerate(filters):
        if level == REST:
            return at <= len(levels)
        if at == len(levels) or level not in (ONE, levels[at]):
            return False
    return len(filters) == len(levels)


def overlaps(one: str, other: str) -> bool:
    """Return whether some name is matched by both filters."""
    left, right = one.split(SEPARATOR), other.split(SEPARATOR)
    for at in range(max(len(left), len(right)) + 1):
        here, there = left[at : at + 1], right[at : at + 1]
        if [REST] in (here, there):
            return True
        if not here or not there:
            # `a/#` matches `a`, which the other filter may end with.
            return here == there
        if ONE not in (*here, *there) and here != there:
            return False
    raise AssertionError("one of the two has ended")


class _Level(Generic[Subscriber]):
    """What follows one level: deeper levels by their text, and whose filters end here."""

    __slots__ = ("below", "ending")

    def __init__(self) -> None:
        self.below: dict[str, _Level[Subscriber]] = {}
        self.ending: dict[Subscriber, None] = {}


class FilterTree(Generic[Subscriber]):
    """Subscribers by their filters; finding costs by the levels of a name, not by the filters."""

    def __init__(self) -> None:
        self._root: _Level[Subscriber] = _Level()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, wanted: str, subscriber: Subscriber) -> None:
        """Have a subscriber found by the names that a filter matches."""
        check_filter(wanted)
        level = self._root
        for text in wanted.split(SEPARATOR):
            level = level.below.setdefault(text, _Level())
        self._count += subscriber not in level.ending
        level.ending[subscriber] = None

    def remove(self, wanted: str, subscriber: Subscriber) -> None:
        """Forget a subscriber's filter, if it is there."""
        path = [self._root]
        levels = wanted.split(SEPARATOR)
        for text in levels:
            below = path[-1].below.get(text)
            if below is None:
                return
            path.append(below)
        if subscriber not in path[-1].ending:
            return
        del path[-1].ending[subscriber]
        self._count -= 1
        for above, text in zip(reversed(path[:-1]), reversed(levels), strict=True):
            if above.below[text].below or above.below[text].ending:
                return
            del above.below[text]

    def find(self, name: str) -> dict[Subscriber, None]:
        """Return whose filters match a name, each once however many of its filters do."""
        found: dict[Subscriber, None] = {}
        for level in self._matching(name):
            found |= level.ending
        return found

    def _matching(self, name: str) -> Iterator[_Level[Subscriber]]:
        """Yield the ends of the filters that match a name."""
        reached = [self._root]
        for at, text in enumerate(name.split(SEPARATOR)):
            allows_wildcards = at > 0 or not name.startswith("$")
            following = []
            for level in reached:
                below = level.below
                if text in below:
                    following.append(below[text])
                if allows_wildcards and ONE in below:
                    following.append(below[ONE])
                if allows_wildcards and REST in below:
                    yield below[REST]
            if not following:
                return
            reached = following
        for level in reached:
            yield level
            if REST in level.below:
                yield level.below[REST]
