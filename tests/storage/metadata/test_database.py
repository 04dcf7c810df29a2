"""The SQLite file: transactions, migrations, and refusal of what it does not know."""

import sqlite3
from pathlib import Path

import pytest

from chordmq.errors import StorageFailed
from chordmq.storage.metadata.database import Database

STEPS = ["CREATE TABLE pets (name TEXT PRIMARY KEY)", "ALTER TABLE pets ADD COLUMN age INTEGER"]


async def test_a_call_returns_what_the_work_returns(tmp_path: Path) -> None:
    database = Database(tmp_path / "meta.db")
    assert await database.run(lambda c: c.execute("SELECT 41 + 1").fetchone()[0]) == 42
    database.close()


def test_a_failing_call_changes_nothing(tmp_path: Path) -> None:
    database = Database(tmp_path / "meta.db")
    database.migrate("pets", STEPS)

    def half(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO pets VALUES ('rex', 3)")
        raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        database.run_now(half)
    assert database.run_now(lambda c: c.execute("SELECT count(*) FROM pets").fetchone()) == (0,)
    database.close()


def test_migrations_run_once_and_in_order(tmp_path: Path) -> None:
    """D6: the schema of the metadata file moves forward by numbered steps."""
    for known in (1, 2, 2):
        database = Database(tmp_path / "meta.db")
        database.migrate("pets", STEPS[:known])
        database.close()
    database = Database(tmp_path / "meta.db")
    database.run_now(lambda c: c.execute("INSERT INTO pets VALUES ('rex', 3)"))
    with pytest.raises(StorageFailed, match="newer version"):
        database.migrate("pets", STEPS[:1])
    database.close()


def test_tables_that_are_up_to_date_are_not_written_to(tmp_path: Path) -> None:
    """X2: each write at a start would wait for the disk."""
    for changes in (1, 0):
        database = Database(tmp_path / "meta.db")
        database.migrate("pets", STEPS)
        assert database.run_now(lambda c: c.total_changes) == changes
        database.close()


def test_new_tables_are_on_disk_with_the_first_call_that_writes_to_them(tmp_path: Path) -> None:
    """D6, X2: only what is acknowledged waits for the disk, and then for all before it."""
    database = Database(tmp_path / "meta.db")
    levels: list[int] = []

    def level(connection: sqlite3.Connection) -> None:
        levels.extend(connection.execute("PRAGMA synchronous").fetchone())

    database.run_now(lambda c: c.create_function("level", 0, lambda: level(c)))
    database.migrate("pets", [*STEPS, "INSERT INTO pets SELECT level(), 1"])
    database.run_now(lambda c: c.execute("SELECT level()").fetchall())
    assert levels == [1, 2]
    database.close()


def test_a_file_that_is_not_a_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "meta.db").write_bytes(b"this is not SQLite" * 100)
    with pytest.raises(StorageFailed, match=r"meta\.db"):
        Database(tmp_path / "meta.db")


def test_every_commit_is_synced(tmp_path: Path) -> None:
    """D6: WAL with synchronous=FULL, so that a finished call survives a power cut."""
    database = Database(tmp_path / "meta.db")
    assert database.run_now(lambda c: c.execute("PRAGMA synchronous").fetchone()) == (2,)
    database.migrate("pets", STEPS)
    assert database.run_now(lambda c: c.execute("PRAGMA synchronous").fetchone()) == (2,)
    with pytest.raises(StorageFailed, match="NONSENSE"):
        database.migrate("owners", ["CREATE NONSENSE"])
    assert database.run_now(lambda c: c.execute("PRAGMA synchronous").fetchone()) == (2,)
    assert database.run_now(lambda c: c.execute("PRAGMA journal_mode").fetchone()) == ("wal",)
    database.close()
