"""Which partitions have a log on this node's disk, or may have one, as rows.

A row is there before the directory and goes after it, so that what is left of a topic that was
deleted, also while the node was away, is recognised by its id whatever is called so by now.
"""

import sqlite3
from collections.abc import Iterable
from typing import NamedTuple

from chordmq.storage.metadata.database import Database

_STEPS = (
    """
    CREATE TABLE held (
        topic BLOB NOT NULL, name TEXT NOT NULL, partition INTEGER NOT NULL,
        PRIMARY KEY (topic, partition)
    ) STRICT, WITHOUT ROWID
    """,
)


class HeldRow(NamedTuple):
    """A partition that may be on the disk."""

    topic: bytes
    name: str
    partition: int


def prepare(database: Database) -> None:
    """Make the table."""
    database.migrate("held", _STEPS)


def write(connection: sqlite3.Connection, rows: Iterable[HeldRow]) -> None:
    """Add rows; those that are there already stay."""
    connection.executemany("INSERT OR IGNORE INTO held VALUES (?, ?, ?)", rows)


class HeldTable:
    """The rows of one node; each change is on disk when its call returns."""

    def __init__(self, database: Database) -> None:
        self._database = database
        prepare(database)

    def rows(self) -> list[HeldRow]:
        """Return every row, blocking; for the start."""
        query = "SELECT topic, name, partition FROM held ORDER BY name, partition"
        return self._database.run_now(
            lambda connection: [HeldRow(*row) for row in connection.execute(query)]
        )

    def add_now(self, rows: Iterable[HeldRow]) -> None:
        """Add rows, blocking; for the start."""
        added = list(rows)
        self._database.run_now(lambda connection: write(connection, added))

    async def add(self, rows: Iterable[HeldRow]) -> None:
        """Add rows, before their directories are made."""
        added = list(rows)
        await self._database.run(lambda connection: write(connection, added))

    async def remove(self, rows: Iterable[HeldRow]) -> None:
        """Remove rows, after their directories."""
        gone = [(row.topic, row.partition) for row in rows]
        await self._database.run(
            lambda connection: connection.executemany(
                "DELETE FROM held WHERE topic = ? AND partition = ?", gone
            )
        )
