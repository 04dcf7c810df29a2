"""Finds the owner of a key: asks members ever nearer to it, about half as many as log2 of all."""

from chordmq.cluster.ring.identifier import distance
from chordmq.codecs.peer.ring import Routed

HOPS_MAX = 128


class Lookup:
    """One search, free of I/O: it says whom to ask next, and is told what came of it."""

    def __init__(self, key: int, start: Routed) -> None:
        self.key = key
        self.hops = 0
        self.owner: int | None = None
        self._tried: set[int] = set()
        self._candidates: list[int] = []
        self.receive(start)

    def next(self) -> int | None:
        """Return whom to ask; None if the owner is found, or if nobody is left to ask."""
        if self.owner is not None or self.hops >= HOPS_MAX or not self._candidates:
            return None
        member = self._candidates.pop()
        self._tried.add(member)
        self.hops += 1
        return member

    def receive(self, routed: Routed) -> None:
        """Take what a member knows; nearer ones are asked first, farther ones if those are dead."""
        if routed.owner is not None:
            self.owner = routed.owner
            return
        fresh = {*self._candidates, *routed.nearer} - self._tried
        self._candidates = sorted(fresh, key=lambda member: -distance(member, self.key))
