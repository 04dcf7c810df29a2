"""One change of a database, whatever database it was, and how far its source is (pure)."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

CREATE, UPDATE, DELETE, READ, TRUNCATE = "c", "u", "d", "r", "t"
"""What happened to a row, by the letters that Debezium uses; READ is a row of a snapshot."""


class Place(NamedTuple):
    """Where rows live: a schema and a table, or a database and a collection."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}.{self.name}"


Json = bytes
"""A value that is written already, as events show it."""


class Change(NamedTuple):
    """What happened to one row or document."""

    op: str
    place: Place
    key: Json | None
    """None where the table has no primary key."""
    before: Json | None
    after: Json | None
    source: Json
    """Where the change stands in the source, as Debezium tells it."""
    time_us: int
    """When it was committed there."""
    id: str
    """The same each time that this change is read."""
    description: Json | None = None
    """What an update has changed; MongoDB says so, and null of what is no update."""


class Spoiled(NamedTuple):
    """A change that cannot be told: it goes to the dead letters, with the reason."""

    place: Place
    id: str
    reason: str
    key: Json | None = None


class Part(msgspec.Struct, frozen=True):
    """Rows that a snapshot has read later than where the stream begins.

    Changes that the mark covers were in what was read: they must not be told again.
    """

    scope: str
    after: Sequence[Any] | None
    """Only rows with keys beyond this one; None for all."""
    mark: str
    """What the read could see, in the words of the source."""
    until: str
    """The stream may forget this part when it is here."""


class Snapshot(msgspec.Struct, frozen=True):
    """A snapshot that goes on: what is still to be read."""

    todo: Sequence[str]
    """The first one is being read."""
    last: Sequence[Any] | None = None
    """The last key of the first one that was told."""
    rows: int = 0


class Position(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far a source is: stored with its output, so that both are there or none."""

    at: str
    """Everything before is told: an LSN, or a resume token."""
    partial: tuple[int, int] | None = None
    """A transaction that is too large for one step: its number, and how many changes are told."""
    snapshot: Snapshot | None = None
    """The first snapshot, as long as it is not finished."""
    parts: Sequence[Part] = ()
    incremental: Snapshot | None = None
    """A snapshot that somebody asked for, while the stream goes on."""
    time_us: int = 0
    """When the last change was committed in the source."""


class Burst(NamedTuple):
    """Changes that are told in one step, and how far the source is after them."""

    changes: Sequence[Change | Spoiled]
    position: Position
