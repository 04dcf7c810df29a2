"""The identity of a data directory: made once, and lost with what the directory holds."""

import sqlite3
import uuid
from pathlib import Path

from chordmq.storage.metadata.database import Database

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

_STEPS = (
    """
    CREATE TABLE directory (
        only INTEGER PRIMARY KEY CHECK (only = 1), uuid TEXT NOT NULL
    ) STRICT
    """,
)


def uuid_of(directory: Path) -> str:
    """Return what tells this directory from all others; blocks."""
    directory.mkdir(parents=True, exist_ok=True)
    database = Database(directory / "meta.db")
    try:
        database.migrate("directory", _STEPS)
        return database.run_now(_uuid)
    finally:
        database.close()


def boot_id() -> str:
    """Return what changes when the machine starts; where nobody knows, it is always another."""
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return str(uuid.uuid4())


def _uuid(connection: sqlite3.Connection) -> str:
    made = str(uuid.uuid4())
    connection.execute("INSERT OR IGNORE INTO directory VALUES (1, ?)", (made,))
    return str(connection.execute("SELECT uuid FROM directory").fetchone()[0])
