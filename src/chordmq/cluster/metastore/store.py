"""The one source of truth of a cluster, as an interface: compare-and-set, watch and lease."""

from collections.abc import AsyncGenerator, Sequence
from typing import NamedTuple, Protocol

from chordmq.dataclass import dataclass


class StoreConflict(Exception):
    """A compare did not hold: nothing was changed."""


class LeaseLost(Exception):
    """The lease has ended, and with it all that was put under it."""


class HistoryLost(Exception):
    """A watch cannot go on from where it was: read everything again, then watch from there."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One key with its value, as of the revision that wrote it."""

    key: str
    value: bytes
    revision: int
    """The commit that wrote this value."""
    created: int
    """The commit that made the key; it stays the same until the key is deleted."""
    lease: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All entries under a prefix in the order of their keys, and the revision they are as of."""

    entries: list[Entry]
    revision: int


class Outline(NamedTuple):
    """What tells whether a snapshot is still true, without its values."""

    keys: int
    newest: int
    """The revision of the entry that was written last; 0 if there is none."""


@dataclass(frozen=True, slots=True)
class Compare:
    """A condition of a commit: when the key was last written, when it was made, if it is there."""

    key: str
    revision: int | None = None
    created: int | None = None
    exists: bool | None = None

    def holds(self, entry: Entry | None) -> bool:
        """Return whether the condition is true of an entry."""
        return (
            self.revision in (None, entry.revision if entry else 0)
            and self.created in (None, entry.created if entry else 0)
            and self.exists in (None, entry is not None)
        )


def unchanged(key: str, entry: Entry | None) -> Compare:
    """Return the condition that nobody has written the key since it was seen so."""
    return absent(key) if entry is None else Compare(key, revision=entry.revision)


def absent(key: str) -> Compare:
    """Return the condition that the key is not there."""
    return Compare(key, exists=False)


def present(key: str) -> Compare:
    """Return the condition that the key is there."""
    return Compare(key, exists=True)


@dataclass(frozen=True, slots=True)
class Put:
    """Writes a value; under a lease it goes when the lease ends."""

    key: str
    value: bytes
    lease: int = 0


@dataclass(frozen=True, slots=True)
class Delete:
    """Removes a key if it is there."""

    key: str


@dataclass(frozen=True, slots=True)
class DeleteUnder:
    """Removes all keys that begin so."""

    prefix: str


Operation = Put | Delete | DeleteUnder


@dataclass(frozen=True, slots=True)
class Event:
    """A key that was written, or (without an entry) removed, at a revision."""

    key: str
    revision: int
    entry: Entry | None


class MetaStore(Protocol):
    """A linearizable store of small values; revisions count its commits and only grow.

    A call that may or may not have had its effect raises UnknownOutcome: whoever asked reads again
    before it tries again. A call that had none raises StoreUnavailable. Leases say who lives,
    watches are hints; only a commit whose compares held is a fact.
    """

    operations_max: int
    """Of compares, and of operations, in one commit."""

    async def get(self, key: str) -> Entry | None:
        """Return the newest entry of a key, or None."""
        ...

    async def range(self, prefix: str) -> Snapshot:
        """Return the newest entries of all keys that begin so."""
        ...

    async def outline(self, prefix: str) -> Outline:
        """Return how many keys begin so, and when the newest of them was written."""
        ...

    async def commit(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> int:
        """Do all operations at one revision and return it, or raise StoreConflict and do none.

        No key may be written twice in one commit.
        """
        ...

    def watch(self, prefix: str, revision: int) -> AsyncGenerator[list[Event], None]:
        """Yield what changes under a prefix after a revision, in order, a list per commit or more.

        Raises HistoryLost if that is too long ago, StoreUnavailable if the store goes away.
        """
        ...

    async def grant(self, ttl_s: float) -> int:
        """Begin a lease that ends unless it is kept, and return its number."""
        ...

    async def keep(self, lease: int) -> float:
        """Prolong a lease; return the seconds it lasts from before the call, or raise LeaseLost."""
        ...

    async def revoke(self, lease: int) -> None:
        """End a lease now, and remove what was put under it."""
        ...

    async def close(self) -> None:
        """Let go of connections and files."""
        ...
