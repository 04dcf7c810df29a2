"""Shortcuts across the ring: the owner of the place one half, a quarter, an eighth … further on."""

from collections.abc import Collection, Iterable

from chordmq.cluster.ring.identifier import BITS, SIZE, between, distance, owned

NEARER_MAX = 3
"""How many members a route names, so that the next can be tried where one is dead."""


class Fingers:
    """The table of one member; entry k is the owner of `me + 2**k`, as found last."""

    def __init__(self, me: int) -> None:
        self.me = me
        self.table: dict[int, int] = {}
        self._next = BITS - 1

    def place(self, k: int) -> int:
        """Return the place whose owner entry k is."""
        return (self.me + (1 << k)) % SIZE

    def next_to_fix(self, successor: int) -> int | None:
        """Return the entry to look up next, or None after the last that is not the successor."""
        k = self._next
        if k < 0 or owned(self.me, self.place(k), successor):
            self.table = {i: member for i, member in self.table.items() if i > k}
            self._next = BITS - 1
            return None
        self._next -= 1
        return k

    def fix(self, k: int, member: int) -> None:
        """Take note of who owns the place of entry k; nobody needs a finger on itself."""
        if member == self.me:
            self.table.pop(k, None)
        else:
            self.table[k] = member

    def forget(self, member: int) -> None:
        """Drop a member that is dead."""
        self.table = {k: other for k, other in self.table.items() if other != member}

    def keep(self, registered: Collection[int]) -> None:
        """Drop members that are registered no more."""
        self.table = {k: member for k, member in self.table.items() if member in registered}

    def members(self) -> set[int]:
        """Return the members that the fingers point to."""
        return set(self.table.values())


def nearer(me: int, key: int, known: Iterable[int]) -> tuple[int, ...]:
    """Return the known members between this one and a key, the nearest to the key first."""
    found = sorted(
        {member for member in known if between(me, member, key)},
        key=lambda member: distance(member, key),
    )
    return tuple(found[:NEARER_MAX])
