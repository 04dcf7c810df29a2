"""Keys with values and revisions, as rows: what a node alone keeps instead of a cluster's store."""

import sqlite3
from typing import NamedTuple

from chordmq.storage.metadata.database import Database

_STEPS = (
    """
    CREATE TABLE entries (
        key TEXT PRIMARY KEY, value BLOB NOT NULL,
        revision INTEGER NOT NULL, created INTEGER NOT NULL, lease INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE entry_revision (
        only INTEGER PRIMARY KEY CHECK (only = 1), revision INTEGER NOT NULL
    ) STRICT;
    INSERT INTO entry_revision VALUES (1, 1)
    """,
)
_LAST = "\U0010ffff"


class EntryRow(NamedTuple):
    """An entry as the database knows it."""

    key: str
    value: bytes
    revision: int
    created: int
    lease: int


def prepare(database: Database) -> None:
    """Make the tables, and forget what was put under leases of an earlier run."""
    database.migrate("entries", _STEPS)
    database.run_now(lambda connection: connection.execute("DELETE FROM entries WHERE lease != 0"))


def revision(connection: sqlite3.Connection) -> int:
    """Return the revision of the newest change."""
    return int(connection.execute("SELECT revision FROM entry_revision").fetchone()[0])


def set_revision(connection: sqlite3.Connection, number: int) -> None:
    """Take note of the revision of a change."""
    connection.execute("UPDATE entry_revision SET revision = ?", (number,))


def find(connection: sqlite3.Connection, key: str) -> EntryRow | None:
    """Return one row, or None."""
    row = connection.execute(
        "SELECT key, value, revision, created, lease FROM entries WHERE key = ?", (key,)
    ).fetchone()
    return EntryRow(*row) if row else None


def under(connection: sqlite3.Connection, prefix: str) -> list[EntryRow]:
    """Return the rows whose keys begin so, in the order of their keys."""
    rows = connection.execute(
        "SELECT key, value, revision, created, lease FROM entries "
        "WHERE key >= ? AND key < ? ORDER BY key",
        (prefix, prefix + _LAST),
    )
    return [EntryRow(*row) for row in rows]


def of_lease(connection: sqlite3.Connection, lease: int) -> list[str]:
    """Return the keys that were put under a lease."""
    rows = connection.execute("SELECT key FROM entries WHERE lease = ? ORDER BY key", (lease,))
    return [key for (key,) in rows]


def write(connection: sqlite3.Connection, row: EntryRow) -> None:
    """Add a row or replace it."""
    connection.execute("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?)", row)


def remove(connection: sqlite3.Connection, key: str) -> None:
    """Remove a row."""
    connection.execute("DELETE FROM entries WHERE key = ?", (key,))
