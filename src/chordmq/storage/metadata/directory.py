"""The identity of a data directory: made once, and lost with what the directory holds."""

import sqlite3
import uuid
from contextlib import suppress
from pathlib import Path

from chordmq.storage.metadata.database import Database

SUSPECT = "flush.failed"
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


def suspect(directory: Path) -> None:
    """Leave word that a flush has failed, so that the next start trusts nothing that was not."""
    with suppress(OSError):  # on a disk that fails, nothing is certain
        (directory / SUSPECT).touch()


def is_suspect(directory: Path) -> bool:
    """Return whether a flush had failed when the directory was last used."""
    return (directory / SUSPECT).exists()


def trust(directory: Path) -> None:
    """Forget that a flush had failed: the others know by now."""
    (directory / SUSPECT).unlink(missing_ok=True)


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
