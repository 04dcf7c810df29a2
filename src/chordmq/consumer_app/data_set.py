"""The local copy of a topic: messages in segments, their index and all positions in SQLite."""

import json
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import groupby, islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from chordmq.clock import Clock
from chordmq.codecs.provider.frames import Type
from chordmq.codecs.provider.messages import Marker
from chordmq.consumer_app.pushes import Frame, read_message
from chordmq.consumer_app.refresh import Refresh
from chordmq.consumer_app.segments import Place, Segments
from chordmq.consumer_app.shown import as_bytes, shown
from chordmq.errors import OffsetOutOfRange
from chordmq.records.record import Record

SCHEMA = """
CREATE TABLE IF NOT EXISTS messages (
    data_set INTEGER NOT NULL, partition INTEGER NOT NULL, offset INTEGER NOT NULL,
    timestamp INTEGER NOT NULL, key BLOB, gone INTEGER NOT NULL,
    PRIMARY KEY (partition, offset)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_key ON messages (key, offset, data_set, gone);
CREATE INDEX IF NOT EXISTS by_time ON messages (timestamp);
CREATE TABLE IF NOT EXISTS partitions (
    partition INTEGER PRIMARY KEY, position INTEGER NOT NULL, current INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS refresh (id INTEGER PRIMARY KEY CHECK (id = 1), state TEXT NOT NULL);
CREATE VIEW IF NOT EXISTS current AS
    SELECT messages.* FROM messages CROSS JOIN partitions  -- SQLite goes through messages first
    WHERE partitions.partition = messages.partition AND messages.data_set = partitions.current;
"""
EXPORTED = """
CREATE TABLE messages (
    partition INTEGER NOT NULL, offset INTEGER NOT NULL, timestamp INTEGER NOT NULL,
    key BLOB, value BLOB, headers TEXT NOT NULL, PRIMARY KEY (partition, offset)
);
CREATE TABLE positions (partition INTEGER PRIMARY KEY, position INTEGER NOT NULL);
"""
CHUNK = 1000
ATTEMPTS = 3


class Wanted(NamedTuple):
    """Which messages a query asks for."""

    key: bytes | None = None
    start_ms: int | None = None
    stop_ms: int | None = None
    text: str | None = None
    after: Place = (-1, -1)
    """Of the last message of the page before."""
    limit: int = 100


class DataSet:
    """One writer, and as many readers as ask: each query sees the index as it is at one moment.

    Segments are on disk before the index that speaks of them; what a crash leaves beyond it is cut.
    """

    def __init__(self, directory: Path, clock: Clock) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._path = directory / "data.db"
        self._database = sqlite3.connect(self._path, check_same_thread=False)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = NORMAL")
        self._database.executescript(SCHEMA)
        row = self._database.execute("SELECT state FROM refresh").fetchone()
        self.refresh = msgspec.json.decode(row[0], type=Refresh) if row else Refresh()
        self._segments = Segments(directory / "segments", clock)
        self._segments.cut(self.positions())
        self._own = threading.local()
        self._readers: list[sqlite3.Connection] = []

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
        rows: list[tuple[Any, ...]] = []
        taken: dict[int, list[Record]] = {}
        with self._database:
            for frame in frames:
                if frame.offset < positions.get(frame.partition, 0):
                    continue
                positions[frame.partition] = frame.offset + 1
                refresh.know([frame.partition])
                if frame.kind == Type.DATA:
                    record = _record(frame)
                    taken.setdefault(frame.partition, []).append(record)
                    stage = refresh.stages[frame.partition]
                    rows.append(_row(stage.begun, frame.partition, record))
                else:
                    self._index(rows)
                    self._mark(frame, refresh)
            self._index(rows)
            self._save(positions, refresh)
            self._write(taken)
        self.refresh = refresh
        for partition, stage in refresh.stages.items():
            self._segments.delete_before(partition, stage.start)

    def _write(self, taken: dict[int, list[Record]]) -> None:
        try:
            for partition, records in taken.items():
                self._segments.append(partition, records)
            self._segments.flush()
        except BaseException:
            # Others see the positions as they were before the transaction under way.
            before = self._reader.execute("SELECT partition, position FROM partitions")
            self._segments.cut(dict(before))
            raise

    def _index(self, rows: list[tuple[Any, ...]]) -> None:
        insert = "INSERT OR REPLACE INTO messages VALUES (?, ?, ?, ?, ?, ?)"
        self._database.executemany(insert, rows)
        rows.clear()

    def _save(self, positions: dict[int, int], refresh: Refresh) -> None:
        rows = [(p, positions.get(p, 0), one.current) for p, one in refresh.stages.items()]
        self._database.executemany("INSERT OR REPLACE INTO partitions VALUES (?, ?, ?)", rows)
        state = msgspec.json.encode(refresh).decode()
        self._database.execute("INSERT OR REPLACE INTO refresh VALUES (1, ?)", (state,))

    def _mark(self, frame: Frame, refresh: Refresh) -> None:
        partition = frame.partition
        if frame.kind == Type.RESET:
            refresh.reset(partition, frame.offset)
            self._database.execute(
                "DELETE FROM messages WHERE partition = ? AND data_set <> ?",
                (partition, refresh.stages[partition].current),
            )
        elif refresh.ready(partition, _edition(frame.payload)):
            rows = [(number, one.current) for number, one in refresh.stages.items()]
            self._database.executemany(
                "DELETE FROM messages WHERE partition = ? AND data_set < ?", rows
            )

    def find(self, wanted: Wanted) -> list[dict[str, Any]]:
        """Return messages of the current data set by partition and offset."""
        tests, values = ["(partition, offset) > (?, ?)"], [*wanted.after]
        parts: list[tuple[str, Any]] = [
            ("key = ?", wanted.key),
            ("timestamp >= ?", wanted.start_ms),
            ("timestamp < ?", wanted.stop_ms),
        ]
        for test, value in parts:
            if value is not None:
                tests.append(test)
                values.append(value)
        query = (
            f"SELECT partition, offset FROM current WHERE {' AND '.join(tests)} "  # noqa: S608
            "ORDER BY partition, offset"
        )
        needle = (wanted.text or "").encode()
        return self._asked(query, values, wanted.limit, needle)

    def newest(self, key: bytes) -> dict[str, Any] | None:
        """Return the newest message of a key, unless it says that the key is gone."""
        query = (
            "SELECT partition, offset FROM (SELECT partition, offset, gone FROM current "
            "WHERE key = ? ORDER BY offset DESC LIMIT 1) WHERE NOT gone"
        )
        return next(iter(self._asked(query, [key], 1)), None)

    def newest_of_all(self, after: bytes, limit: int) -> list[dict[str, Any]]:
        """Return the newest message of each key that is not gone, in the order of keys."""
        query = (
            # Columns beside max() are those of its row.
            "SELECT partition, max(offset) FROM current "
            "WHERE key > ? GROUP BY key HAVING NOT gone ORDER BY key LIMIT ?"
        )
        return self._asked(query, [after, limit], limit)

    def count(self) -> int:
        """Return how many messages queries can see."""
        return int(self._reader.execute("SELECT count(*) FROM current").fetchone()[0])

    def export(self, target: Path) -> None:
        """Write the current data set into a SQLite file of its own, with the positions after it."""
        reader = self._reader
        with closing(sqlite3.connect(target)) as copy, copy:
            copy.executescript(EXPORTED)
            reader.execute("BEGIN")
            try:
                places = reader.execute("SELECT partition, offset FROM current")
                rows = (
                    (partition, one.offset, one.timestamp, one.key, one.value, _headers(one))
                    for partition, one in self._segments.read(places)
                )
                copy.executemany("INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?)", rows)
                positions = reader.execute("SELECT partition, position FROM partitions")
                copy.executemany("INSERT INTO positions VALUES (?, ?)", positions)
            finally:
                reader.execute("COMMIT")

    def load(self, source: Path) -> int:
        """Take over an exported data set; raise ValueError if it is none. For an empty one."""
        refresh, count = Refresh(), 0
        try:
            with closing(sqlite3.connect(source)) as other, self._database:
                positions = dict(other.execute("SELECT partition, position FROM positions"))
                refresh.know([*positions])
                found = other.execute(
                    "SELECT partition, offset, timestamp, key, value, headers FROM messages "
                    "ORDER BY partition, offset"
                )
                while rows := found.fetchmany(CHUNK):
                    for partition, part in groupby(rows, key=lambda row: int(row[0])):
                        records = [_exported(row[1:]) for row in part]
                        self._segments.append(partition, records)
                        self._index([_row(0, partition, record) for record in records])
                    count += len(rows)
                self._segments.flush()
                self._save(positions, refresh)
        except (sqlite3.Error, TypeError, json.JSONDecodeError, AssertionError) as error:
            raise ValueError(f"no exported data set: {error}") from error
        self.refresh = refresh
        return count

    def close(self) -> None:
        """Close the files."""
        for reader in self._readers:
            reader.close()
        self._segments.close()
        self._database.close()

    def _asked(
        self, query: str, values: Sequence[Any], limit: int, needle: bytes = b""
    ) -> list[dict[str, Any]]:
        """Return the messages whose places a query finds; in whose values a text stands, if any."""
        for _ in range(ATTEMPTS):
            try:
                with closing(self._reader.execute(query, values)) as places:
                    return self._shown(places, limit, needle)
            except OffsetOutOfRange:  # a new data set has taken the place of the one that was asked
                continue
        raise OffsetOutOfRange("the data set is replaced faster than it can be read")

    def _shown(
        self, places: Iterator[Place], limit: int, needle: bytes = b""
    ) -> list[dict[str, Any]]:
        return [
            {
                "partition": partition,
                "offset": record.offset,
                "timestamp": record.timestamp,
                "key": shown(record.key),
                "value": shown(record.value),
                "headers": json.loads(_headers(record)),
            }
            for partition, record in islice(self._segments.read(places, needle), limit)
        ]

    @property
    def _reader(self) -> sqlite3.Connection:
        """Return this thread's connection; to open one costs more than a query."""
        reader: sqlite3.Connection | None = getattr(self._own, "reader", None)
        if reader is None:
            reader = sqlite3.connect(self._path, check_same_thread=False, isolation_level=None)
            self._own.reader = reader
            self._readers.append(reader)
        return reader


def _record(frame: Frame) -> Record:
    message = read_message(frame.payload)
    return Record(
        frame.offset, message.timestamp, message.key, message.value, tuple(message.headers)
    )


def _row(data_set: int, partition: int, record: Record) -> tuple[Any, ...]:
    is_gone = int(record.value is None)
    return data_set, partition, record.offset, record.timestamp, record.key, is_gone


def _edition(payload: bytes) -> str:
    return msgspec.json.decode(payload, type=Marker).refresh


def _headers(record: Record) -> str:
    return json.dumps([{"name": name, "value": shown(value)} for name, value in record.headers])


def _exported(row: Sequence[Any]) -> Record:
    offset, timestamp, key, value, headers = row
    pairs = tuple((str(one["name"]), as_bytes(one["value"])) for one in json.loads(headers))
    return Record(int(offset), int(timestamp), as_bytes(key), as_bytes(value), pairs)
