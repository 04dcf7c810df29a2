"""Rows that an incremental snapshot has read, until the stream is as far as they are (pure).

Whoever changes one of them later than it was read is told by the stream: the row is dropped then.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from chordmq.cdc.postgres.pgoutput import Tuple, Visibility

RawKey = tuple[str, ...]


class Chunk(NamedTuple):
    """Rows of one table, by key."""

    scope: str
    rows: dict[RawKey, Tuple]
    sees: Visibility
    lsn: int
    """The stream has told everything that the rows show when it is here."""
    last: Sequence[str] | None
    """The last key that was read; None if nothing was left."""
    is_final: bool

    def touched(self, xid: int, keys: Iterable[RawKey]) -> None:
        """Drop rows that a later transaction has changed."""
        if self.sees.sees(xid):
            return
        for key in keys:
            self.rows.pop(key, None)

    def is_stale(self, told: Iterable[int]) -> bool:
        """Return whether it was read too early: the stream has told what it does not show.

        A commit is in the log a moment before others can see it.
        """
        return any(not self.sees.sees(xid) for xid in told)
