"""The segment catalogue: which segments a log has and how far each log is known to be on disk."""

import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import field
from threading import Lock

from chordmq.dataclass import dataclass
from chordmq.storage.metadata.database import Database

_MIGRATIONS = (
    """
    CREATE TABLE logs (
        name TEXT PRIMARY KEY,
        start_offset INTEGER NOT NULL,
        flushed_segment INTEGER NOT NULL,
        flushed_position INTEGER NOT NULL,
        flushed_offset INTEGER NOT NULL,
        cleaned_offset INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE segments (
        log TEXT NOT NULL,
        base_offset INTEGER NOT NULL,
        next_offset INTEGER NOT NULL,
        size INTEGER NOT NULL,
        max_timestamp INTEGER NOT NULL,
        max_timestamp_offset INTEGER NOT NULL,
        created_ms INTEGER NOT NULL,
        PRIMARY KEY (log, base_offset)
    ) STRICT, WITHOUT ROWID
    """,
    "ALTER TABLE logs ADD COLUMN journal_round INTEGER NOT NULL DEFAULT 0",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentEntry:
    """One segment as the catalogue knows it; all of it is on disk."""

    base_offset: int
    next_offset: int
    size: int
    max_timestamp: int
    """The latest timestamp of its records, or -1 when it has none."""
    max_timestamp_offset: int
    """Base offset of the batch which holds that record."""
    created_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """How far a log is on disk: what is before `flushed_offset` was synced before this was said."""

    start_offset: int
    flushed_segment: int
    flushed_position: int
    flushed_offset: int
    cleaned_offset: int
    """Offsets below this one have been through compaction."""
    journal_round: int = 0
    """What rounds of the journal before this one say of the log is no longer so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueEntry:
    """What the catalogue holds about one log."""

    checkpoint: Checkpoint
    segments: dict[int, SegmentEntry] = field(default_factory=dict)


class SegmentCatalogue:
    """Keeps the two tables; changes are queued, and those that wait together commit together."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = Lock()  # guards the two fields below, shared with the database's thread
        self._pending: list[Callable[[sqlite3.Connection], None]] = []
        self._writing: Future[None] | None = None
        database.migrate("segments", _MIGRATIONS)

    def load(self, name: str) -> CatalogueEntry | None:
        """Return what is known of the log; blocks, for start-up."""
        return self._database.run_now(lambda connection: _load(connection, name))

    def journal_rounds(self) -> dict[str, int]:
        """Return for each log the first round of the journal that counts; blocks, for start-up."""
        return self._database.run_now(
            lambda connection: dict(connection.execute("SELECT name, journal_round FROM logs"))
        )

    def save(
        self, name: str, checkpoint: Checkpoint, segments: Sequence[SegmentEntry] = ()
    ) -> "Future[None]":
        """Record how far the log is on disk, and the segments that changed."""
        return self._queue(lambda connection: _save(connection, name, checkpoint, segments))

    def drop(self, name: str, base_offsets: Sequence[int]) -> "Future[None]":
        """Forget segments that were deleted or replaced."""
        return self._queue(lambda connection: _drop(connection, name, base_offsets))

    def forget(self, name: str) -> "Future[None]":
        """Forget the whole log."""
        return self._queue(lambda connection: _forget(connection, name))

    def _queue(self, change: Callable[[sqlite3.Connection], None]) -> "Future[None]":
        with self._lock:
            self._pending.append(change)
            if self._writing is None:
                self._writing = self._database.submit(self._write)
            return self._writing

    def _write(self, connection: sqlite3.Connection) -> None:
        with self._lock:
            changes, self._pending, self._writing = self._pending, [], None
        for change in changes:
            change(connection)


def _load(connection: sqlite3.Connection, name: str) -> CatalogueEntry | None:
    row = connection.execute(
        "SELECT start_offset, flushed_segment, flushed_position, flushed_offset, cleaned_offset, "
        "journal_round FROM logs WHERE name = ?",
        (name,),
    ).fetchone()
    if row is None:
        return None
    start, segment, position, flushed, cleaned, journal_round = row
    rows = connection.execute(
        "SELECT base_offset, next_offset, size, max_timestamp, max_timestamp_offset, created_ms "
        "FROM segments WHERE log = ? ORDER BY base_offset",
        (name,),
    )
    return CatalogueEntry(
        checkpoint=Checkpoint(
            start_offset=start,
            flushed_segment=segment,
            flushed_position=position,
            flushed_offset=flushed,
            cleaned_offset=cleaned,
            journal_round=journal_round,
        ),
        segments={
            base: SegmentEntry(
                base_offset=base,
                next_offset=following,
                size=size,
                max_timestamp=timestamp,
                max_timestamp_offset=timestamp_offset,
                created_ms=created,
            )
            for base, following, size, timestamp, timestamp_offset, created in rows
        },
    )


def _save(
    connection: sqlite3.Connection,
    name: str,
    checkpoint: Checkpoint,
    segments: Sequence[SegmentEntry],
) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO logs VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            name,
            checkpoint.start_offset,
            checkpoint.flushed_segment,
            checkpoint.flushed_position,
            checkpoint.flushed_offset,
            checkpoint.cleaned_offset,
            checkpoint.journal_round,
        ),
    )
    connection.executemany(
        "INSERT OR REPLACE INTO segments VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            (
                name,
                segment.base_offset,
                segment.next_offset,
                segment.size,
                segment.max_timestamp,
                segment.max_timestamp_offset,
                segment.created_ms,
            )
            for segment in segments
        ],
    )


def _drop(connection: sqlite3.Connection, name: str, base_offsets: Sequence[int]) -> None:
    connection.executemany(
        "DELETE FROM segments WHERE log = ? AND base_offset = ?",
        [(name, base) for base in base_offsets],
    )


def _forget(connection: sqlite3.Connection, name: str) -> None:
    connection.execute("DELETE FROM logs WHERE name = ?", (name,))
    connection.execute("DELETE FROM segments WHERE log = ?", (name,))
