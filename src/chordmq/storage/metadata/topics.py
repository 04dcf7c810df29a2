"""Topics, their settings and the removals not yet finished, as rows."""

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field

from chordmq.storage.metadata.database import Database

# A topic exists from the commit of its row in `topics` to the commit that moves it to `removals`;
# its directories are made after the first and removed after the second, so that after a crash at
# any point the rows say what belongs to whom.
_STEPS = (
    """
    CREATE TABLE topics (
        id BLOB PRIMARY KEY, name TEXT NOT NULL UNIQUE, partitions INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE topic_settings (
        topic BLOB NOT NULL REFERENCES topics (id) ON DELETE CASCADE,
        name TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (topic, name)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE removals (
        id BLOB PRIMARY KEY, name TEXT NOT NULL, partitions INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE node_settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID
    """,
)


@dataclass(frozen=True, slots=True)
class TopicRow:
    """A topic as the database knows it."""

    id: bytes
    name: str
    partitions: int
    settings: Mapping[str, str] = field(default_factory=dict)


class TopicTable:
    """The durable list of topics; each change is on disk when its call returns."""

    def __init__(self, database: Database) -> None:
        self._database = database
        database.migrate("topics", _STEPS)

    def topics(self) -> list[TopicRow]:
        """Return every topic, blocking; for the start."""
        return self._database.run_now(_topics)

    def removals(self) -> list[TopicRow]:
        """Return the deleted topics whose files may still be there, blocking; for the start."""
        return self._database.run_now(_removals)

    def node_settings(self) -> dict[str, str]:
        """Return the settings changed while the node ran, blocking; for the start."""
        return self._database.run_now(
            lambda connection: dict(connection.execute("SELECT name, value FROM node_settings"))
        )

    async def insert(self, row: TopicRow) -> None:
        """Add a topic."""

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(
                "INSERT INTO topics (id, name, partitions) VALUES (?, ?, ?)",
                (row.id, row.name, row.partitions),
            )
            _insert_settings(connection, row.id, row.settings)

        await self._database.run(work)

    async def set_partitions(self, topic: bytes, partitions: int) -> None:
        """Change a topic's number of partitions."""
        await self._database.run(
            lambda connection: connection.execute(
                "UPDATE topics SET partitions = ? WHERE id = ?", (partitions, topic)
            )
        )

    async def set_settings(self, topic: bytes, settings: Mapping[str, str]) -> None:
        """Replace all settings of a topic."""

        def work(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM topic_settings WHERE topic = ?", (topic,))
            _insert_settings(connection, topic, settings)

        await self._database.run(work)

    async def set_node_settings(self, settings: Mapping[str, str]) -> None:
        """Replace all settings changed while the node runs."""

        def work(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM node_settings")
            connection.executemany("INSERT INTO node_settings VALUES (?, ?)", settings.items())

        await self._database.run(work)

    async def remove(self, topic: bytes) -> None:
        """Delete a topic and remember that its files are still there."""

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(
                "INSERT INTO removals SELECT id, name, partitions FROM topics WHERE id = ?",
                (topic,),
            )
            connection.execute("DELETE FROM topics WHERE id = ?", (topic,))

        await self._database.run(work)

    async def forget_removal(self, topic: bytes) -> None:
        """Take note that the files of a deleted topic are gone."""
        await self._database.run(
            lambda connection: connection.execute("DELETE FROM removals WHERE id = ?", (topic,))
        )


def _topics(connection: sqlite3.Connection) -> list[TopicRow]:
    settings: dict[bytes, dict[str, str]] = {}
    for topic, name, value in connection.execute("SELECT topic, name, value FROM topic_settings"):
        settings.setdefault(topic, {})[name] = value
    rows = connection.execute("SELECT id, name, partitions FROM topics ORDER BY name")
    return [TopicRow(id_, name, count, settings.get(id_, {})) for id_, name, count in rows]


def _removals(connection: sqlite3.Connection) -> list[TopicRow]:
    rows = connection.execute("SELECT id, name, partitions FROM removals ORDER BY name")
    return [TopicRow(*row) for row in rows]


def _insert_settings(
    connection: sqlite3.Connection, topic: bytes, settings: Mapping[str, str]
) -> None:
    connection.executemany(
        "INSERT INTO topic_settings (topic, name, value) VALUES (?, ?, ?)",
        [(topic, name, value) for name, value in settings.items()],
    )
