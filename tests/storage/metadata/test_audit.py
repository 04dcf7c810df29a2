"""Heads of the audit trail as rows: kept, bounded, and readable without a node."""

from pathlib import Path

import pytest

from chordmq.storage.metadata import audit
from chordmq.storage.metadata.audit import HeadRow, HeadTable, heads_in
from chordmq.storage.metadata.database import Database


def head(seq: int, *, digest: str = "d") -> HeadRow:
    return HeadRow(seq, 1000 + seq, digest, "s")


async def test_the_newest_heads_are_kept_and_read_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "HEADS_KEPT", 3)
    database = Database(tmp_path / "meta.db")
    table = HeadTable(database)
    for seq in range(5):
        await table.add(head(seq))
    assert table.heads() == [head(2), head(3), head(4)]
    database.close()
    assert heads_in(tmp_path / "meta.db") == [head(2), head(3), head(4)]


async def test_a_head_is_never_replaced_by_another_for_the_same_record(tmp_path: Path) -> None:
    """E13: after a cut, the signature of what was there before must stay."""
    database = Database(tmp_path / "meta.db")
    table = HeadTable(database)
    await table.add(head(7))
    await table.add(head(7, digest="another"))
    assert table.heads() == [head(7)]
    database.close()


def test_a_directory_without_a_database_has_no_heads(tmp_path: Path) -> None:
    assert heads_in(tmp_path / "meta.db") == []
    assert not (tmp_path / "meta.db").exists()
