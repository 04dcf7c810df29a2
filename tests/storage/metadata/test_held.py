"""Rows of what a node may have on its disk."""

from pathlib import Path

from chordmq.storage.metadata.database import Database
from chordmq.storage.metadata.held import HeldRow, HeldTable

ROWS = [HeldRow(bytes(16), "t", 0), HeldRow(bytes(16), "t", 1), HeldRow(b"x" * 16, "t", 0)]


async def test_rows_are_there_until_they_are_removed(tmp_path: Path) -> None:
    database = Database(tmp_path / "meta.db")
    table = HeldTable(database)
    await table.add(ROWS)
    table.add_now(ROWS[:1])
    database.close()

    database = Database(tmp_path / "meta.db")
    table = HeldTable(database)
    assert sorted(table.rows()) == sorted(ROWS)
    await table.remove(ROWS[:2])
    assert table.rows() == ROWS[2:]
    database.close()
