"""The node's SQLite file: one writer thread, WAL mode, and migrations per component."""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from chordmq.errors import StorageFailed
from chordmq.storage import files

Result = TypeVar("Result")

_BUSY_TIMEOUT_S = 5.0
_VERSIONS = """
CREATE TABLE IF NOT EXISTS schema_versions (component TEXT PRIMARY KEY, version INTEGER NOT NULL)
    STRICT, WITHOUT ROWID
"""


class Database:
    """One SQLite file whose every statement runs in one thread, each call in one transaction.

    A call returns once its transaction is on disk (`synchronous=FULL`), or has changed nothing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="chordmq-meta")
        try:
            self._connection = self._writer.submit(_open, path).result()
            files.sync(path.parent)
        except sqlite3.Error as error:
            self._writer.shutdown()
            raise StorageFailed(f"cannot open {path}: {error}") from error

    async def run(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """Run `work` in the writer thread as one transaction, without blocking the event loop."""
        return await asyncio.wrap_future(self.submit(work))

    def run_now(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """Run `work` as one transaction and block until it is done; for start-up and shutdown."""
        return self.submit(work).result()

    def submit(self, work: Callable[[sqlite3.Connection], Result]) -> "Future[Result]":
        """Queue `work` behind what was queued before, and return its future."""
        return self._writer.submit(_in_transaction, self._connection, work)

    def migrate(self, component: str, steps: Sequence[str]) -> None:
        """Bring the component's tables to the newest version; a step is never edited, only added.

        Each step is one or more statements. A file written by a newer version is refused. This
        alone does not wait for the disk: a power cut that takes tables back has taken nothing else,
        for whatever is written to them later is synced together with all before it.
        """
        self._writer.submit(
            _unsynced,
            self._connection,
            lambda connection: _migrate(connection, component, steps),
        ).result()

    def close(self) -> None:
        """Finish what is queued, move the write-ahead log into the file, and close it."""
        self._writer.submit(self._connection.close).result()
        self._writer.shutdown()


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_BUSY_TIMEOUT_S, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute(_VERSIONS)  # a migration, too
        connection.execute("PRAGMA synchronous=FULL")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _unsynced(connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], object]) -> None:
    connection.execute("PRAGMA synchronous=NORMAL")
    try:
        _in_transaction(connection, work)
    finally:
        connection.execute("PRAGMA synchronous=FULL")


def _in_transaction(
    connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], Result]
) -> Result:
    try:
        connection.execute("BEGIN IMMEDIATE")
        try:
            result = work(connection)
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
    except sqlite3.DatabaseError as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        if isinstance(error, sqlite3.IntegrityError | sqlite3.ProgrammingError):
            raise  # of the work's own making
        raise StorageFailed(f"the metadata database failed: {error}") from error
    return result


def _migrate(connection: sqlite3.Connection, component: str, steps: Sequence[str]) -> None:
    row = connection.execute(
        "SELECT version FROM schema_versions WHERE component = ?", (component,)
    ).fetchone()
    version = row[0] if row else 0
    if version > len(steps):
        raise StorageFailed(
            f"{component} has schema version {version}, this program knows {len(steps)}: "
            "the data was written by a newer version"
        )
    if version == len(steps):
        return  # without a write, which would wait for the disk at every start
    for step in steps[version:]:
        for statement in step.split(";"):
            if statement.strip():
                connection.execute(statement)
    connection.execute(
        "INSERT INTO schema_versions VALUES (?, ?) "
        "ON CONFLICT (component) DO UPDATE SET version = excluded.version",
        (component, len(steps)),
    )
