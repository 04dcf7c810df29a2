"""Reaches every member once: each passes a message on to its fingers, each of which sees to an arc.

The arc of a finger ends where the next finger stands. One message a member is sent, over at most
about log2 n steps. Where a finger is dead, the first live member behind it takes over its arc.
"""

from collections import OrderedDict
from collections.abc import Iterable

from chordmq.cluster.ring.identifier import between, distance

REMEMBERED_MAX = 4096


def children(me: int, limit: int, known: Iterable[int]) -> list[tuple[int, int]]:
    """Return to whom to pass a message, each with the limit of the arc that it then sees to.

    This member sees to the arc between itself and `limit`, which for the origin is its own place.
    """
    found = sorted(
        {member for member in known if between(me, member, limit) and member != me},
        key=lambda member: distance(me, member),
    )
    return list(zip(found, [*found[1:], limit], strict=False))


class Seen:
    """The newest messages that a member has had, so that it takes none of them twice."""

    def __init__(self, limit: int = REMEMBERED_MAX) -> None:
        self._limit = limit
        self._seen: OrderedDict[tuple[int, int], None] = OrderedDict()

    def is_new(self, origin: int, sequence: int) -> bool:
        """Return whether a message has not come before, and remember it."""
        if (origin, sequence) in self._seen:
            return False
        self._seen[origin, sequence] = None
        if len(self._seen) > self._limit:
            self._seen.popitem(last=False)
        return True
