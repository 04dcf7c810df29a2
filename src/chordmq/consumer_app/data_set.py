"""The local copy of a topic in SQLite: messages, positions and data sets change together."""

import json
import sqlite3
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from chordmq.codecs.provider.frames import Type
from chordmq.codecs.provider.messages import Marker
from chordmq.consumer_app.pushes import Frame, read_message
from chordmq.consumer_app.refresh import Refresh

SCHEMA = """
CREATE TABLE IF NOT EXISTS messages (
    data_set INTEGER NOT NULL, partition INTEGER NOT NULL, offset INTEGER NOT NULL,
    timestamp INTEGER NOT NULL, key BLOB, value BLOB, headers TEXT NOT NULL,
    PRIMARY KEY (partition, offset)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_key ON messages (key, offset);
CREATE INDEX IF NOT EXISTS by_time ON messages (timestamp);
CREATE TABLE IF NOT EXISTS partitions (
    partition INTEGER PRIMARY KEY, position INTEGER NOT NULL, current INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS refresh (id INTEGER PRIMARY KEY CHECK (id = 1), state TEXT NOT NULL);
CREATE VIEW IF NOT EXISTS current AS
    SELECT messages.* FROM messages CROSS JOIN partitions  -- SQLite goes through messages first
    WHERE partitions.partition = messages.partition AND messages.data_set = partitions.current;
"""
COLUMNS = "partition, offset, timestamp, key, value, headers"


class Wanted(NamedTuple):
    """Which messages a query asks for."""

    key: bytes | None = None
    start_ms: int | None = None
    stop_ms: int | None = None
    text: str | None = None
    after: tuple[int, int] = (-1, -1)
    """Partition and offset of the last message of the page before."""
    limit: int = 100


class DataSet:
    """One SQLite file; one writer, and as many readers as ask."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._path = directory / "data.db"
        self._database = sqlite3.connect(self._path, check_same_thread=False)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = NORMAL")
        self._database.executescript(SCHEMA)
        row = self._database.execute("SELECT state FROM refresh").fetchone()
        self.refresh = msgspec.json.decode(row[0], type=Refresh) if row else Refresh()

    def positions(self) -> dict[int, int]:
        """Return where to go on in each partition."""
        return dict(self._database.execute("SELECT partition, position FROM partitions"))

    def know(self, partitions: list[int]) -> None:
        """Take note of which partitions the topic has."""
        self.refresh.know(partitions)

    def apply(self, frames: Sequence[Frame]) -> None:
        """Store pushed frames and the positions after them: all of them or none."""
        refresh = msgspec.json.decode(msgspec.json.encode(self.refresh), type=Refresh)
        positions = self.positions()
        with self._database:
            for frame in frames:
                if frame.offset < positions.get(frame.partition, 0):
                    continue
                positions[frame.partition] = frame.offset + 1
                self._store(frame, refresh)
            rows = [(p, positions.get(p, 0), one.current) for p, one in refresh.stages.items()]
            self._database.executemany("INSERT OR REPLACE INTO partitions VALUES (?, ?, ?)", rows)
            state = msgspec.json.encode(refresh).decode()
            self._database.execute("INSERT OR REPLACE INTO refresh VALUES (1, ?)", (state,))
        self.refresh = refresh

    def _store(self, frame: Frame, refresh: Refresh) -> None:
        partition = frame.partition
        refresh.know([partition])
        stage = refresh.stages[partition]
        if frame.kind == Type.RESET:
            refresh.reset(partition)
            self._database.execute(
                "DELETE FROM messages WHERE partition = ? AND data_set <> ?",
                (partition, stage.current),
            )
        elif frame.kind == Type.READY:
            if refresh.ready(partition, _edition(frame.payload)):
                rows = [(number, one.current) for number, one in refresh.stages.items()]
                self._database.executemany(
                    "DELETE FROM messages WHERE partition = ? AND data_set < ?", rows
                )
        else:
            message = read_message(frame.payload)
            place = (stage.begun, partition, frame.offset, message.timestamp)
            content = (message.key, message.value, _headers(message.headers))
            self._database.execute(
                "INSERT OR REPLACE INTO messages VALUES (?, ?, ?, ?, ?, ?, ?)", place + content
            )

    def find(self, wanted: Wanted) -> list[dict[str, Any]]:
        """Return messages of the current data set by partition and offset."""
        tests, values = ["(partition, offset) > (?, ?)"], [*wanted.after]
        parts: list[tuple[str, Any]] = [
            ("key = ?", wanted.key),
            ("timestamp >= ?", wanted.start_ms),
            ("timestamp < ?", wanted.stop_ms),
            ("instr(CAST(value AS TEXT), ?) > 0", wanted.text),
        ]
        for test, value in parts:
            if value is not None:
                tests.append(test)
                values.append(value)
        return self._rows(
            f"SELECT {COLUMNS} FROM current WHERE {' AND '.join(tests)} "  # noqa: S608 (no input)
            "ORDER BY partition, offset LIMIT ?",
            [*values, wanted.limit],
        )

    def newest(self, key: bytes) -> dict[str, Any] | None:
        """Return the newest message of a key, unless it says that the key is gone."""
        rows = self._rows(
            f"SELECT {COLUMNS} FROM current WHERE key = ? ORDER BY offset DESC LIMIT 1",  # noqa: S608
            [key],
        )
        return rows[0] if rows and rows[0]["value"] is not None else None

    def newest_of_all(self, after: bytes, limit: int) -> list[dict[str, Any]]:
        """Return the newest message of each key that is not gone, in the order of keys."""
        return self._rows(
            # Columns beside max() are those of its row.
            "SELECT partition, max(offset), timestamp, key, value, headers FROM current "
            "WHERE key > ? GROUP BY key HAVING value IS NOT NULL ORDER BY key LIMIT ?",
            [after, limit],
        )

    def count(self) -> int:
        """Return how many messages queries can see."""
        with self._reading() as database:
            return int(database.execute("SELECT count(*) FROM current").fetchone()[0])

    def export(self, target: Path) -> None:
        """Write the current data set into a SQLite file of its own."""
        with self._reading() as database:
            database.execute("ATTACH ? AS copy", (str(target),))
            database.execute(f"CREATE TABLE copy.messages AS SELECT {COLUMNS} FROM current")  # noqa: S608
            database.commit()

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def _rows(self, query: str, values: list[Any]) -> list[dict[str, Any]]:
        with self._reading() as database:
            found = database.execute(query, values).fetchall()
        return [
            {
                "partition": partition,
                "offset": offset,
                "timestamp": timestamp,
                "key": _shown(key),
                "value": _shown(value),
                "headers": json.loads(headers),
            }
            for partition, offset, timestamp, key, value, headers in found
        ]

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """Open the file for one reader, who sees it as it is at one moment."""
        with closing(sqlite3.connect(self._path)) as database:
            yield database


def _edition(payload: bytes) -> str:
    return msgspec.json.decode(payload, type=Marker).refresh


def _headers(headers: list[tuple[str, bytes | None]]) -> str:
    return json.dumps([{"name": name, "value": _shown(value)} for name, value in headers])


def _shown(data: bytes | None) -> Any:
    """Return bytes as text where they are text, else in base64."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}
