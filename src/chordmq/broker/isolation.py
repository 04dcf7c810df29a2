"""What readers of committed transactions may see of one partition.

A transaction is open from its first batch to its marker. Until the marker is committed, nothing
from the first batch on is stable. Aborted transactions are remembered as long as the log holds
their records, for readers leave those out by themselves.
"""

import sys
from bisect import bisect_left
from collections.abc import Callable
from itertools import islice
from operator import attrgetter
from typing import NamedTuple

from chordmq.records.batch import BatchHeader

_OPEN = sys.maxsize


class Aborted(NamedTuple):
    """A transaction that ended without effect, and where its records lie."""

    producer_id: int
    first_offset: int
    last_offset: int
    """The offset of its marker."""
    stable_offset: int
    """Where the next undecided transaction began; all that abort later begin there or after."""


class Isolation:
    """Open, undecided and aborted transactions, in the order of the log."""

    def __init__(self) -> None:
        self._open: dict[int, int] = {}
        """First offset by producer; transactions begin in the order of their offsets."""
        self._undecided: dict[int, int] = {}
        """Where the marker ends by first offset; a marker decides when it is committed."""
        self.aborted: list[Aborted] = []

    def __contains__(self, producer_id: int) -> bool:
        return producer_id in self._open

    def first_offset(self, producer_id: int) -> int:
        """Return where a producer's open transaction began, or -1."""
        return self._open.get(producer_id, -1)

    def begin(self, producer_id: int, offset: int) -> None:
        """Take note of a transactional batch; the first one opens the transaction."""
        if producer_id not in self._open:
            self._open[producer_id] = offset
            self._undecided[offset] = _OPEN

    def end(self, producer_id: int, offset: int, *, is_commit: bool) -> None:
        """Take note of the marker at an offset; one without a transaction has no effect."""
        first = self._open.pop(producer_id, None)
        if first is None:
            return
        self._undecided[first] = offset + 1
        if not is_commit:
            stable = next(iter(self._open.values()), offset + 1)
            self.aborted.append(Aborted(producer_id, first, offset, stable))

    def stable_offset(self, high_watermark: int) -> int:
        """Return the end of what is decided and committed."""
        undecided = self._undecided
        while undecided:
            first, end = next(iter(undecided.items()))
            if end > high_watermark:
                return min(first, high_watermark)
            del undecided[first]
        return high_watermark

    def aborted_between(self, start: int, end: int) -> list[Aborted]:
        """Return each aborted transaction with records in the range."""
        found = []
        at = bisect_left(self.aborted, start, key=attrgetter("last_offset"))
        for entry in islice(self.aborted, at, None):
            if entry.first_offset < end:
                found.append(entry)
            if entry.stable_offset >= end:
                break
        return found

    def aborted_batches(self) -> Callable[[BatchHeader], bool]:
        """Return a rule that tells which batches belong to aborted transactions as of now."""
        spans: dict[int, list[Aborted]] = {}
        for entry in self.aborted:
            spans.setdefault(entry.producer_id, []).append(entry)

        def is_aborted(header: BatchHeader) -> bool:
            found = spans.get(header.producer_id)
            if found is None or not header.is_transactional:
                return False
            at = bisect_left(found, header.base_offset, key=attrgetter("last_offset"))
            return at < len(found) and found[at].first_offset <= header.base_offset

        return is_aborted

    def forget_before(self, offset: int) -> None:
        """Forget aborted transactions whose records the log does not hold any more."""
        del self.aborted[: bisect_left(self.aborted, offset, key=attrgetter("last_offset"))]
