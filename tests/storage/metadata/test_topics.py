"""The rows of topics: each change whole, and there after the file is opened again."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from chordmq.storage.metadata.database import Database
from chordmq.storage.metadata.topics import TopicRow, TopicTable

ROW = TopicRow(bytes(range(16)), "t", 3, {"retention.ms": "1", "flush": "os"})


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(tmp_path / "meta.db")
    yield database
    database.close()


async def test_a_row_is_there_after_reopening(tmp_path: Path) -> None:
    """D6: what a call returned from is in the file."""
    database = Database(tmp_path / "meta.db")
    await TopicTable(database).insert(ROW)
    database.close()
    database = Database(tmp_path / "meta.db")
    assert TopicTable(database).topics() == [ROW]
    database.close()


async def test_partitions_and_settings_are_replaced(database: Database) -> None:
    table = TopicTable(database)
    await table.insert(ROW)
    await table.set_partitions(ROW.id, 5)
    await table.set_settings(ROW.id, {"retention.ms": "2"})
    assert table.topics() == [TopicRow(ROW.id, "t", 5, {"retention.ms": "2"})]


async def test_a_removed_topic_is_remembered_until_its_files_are_gone(database: Database) -> None:
    table = TopicTable(database)
    await table.insert(ROW)
    await table.remove(ROW.id)
    assert table.topics() == []
    assert table.removals() == [TopicRow(ROW.id, "t", 3)]
    again = TopicRow(bytes(16), "t", 1)
    await table.insert(again)
    assert table.topics() == [again]
    await table.forget_removal(ROW.id)
    assert table.removals() == []


async def test_a_name_cannot_be_taken_twice(database: Database) -> None:
    table = TopicTable(database)
    await table.insert(ROW)
    with pytest.raises(Exception, match="UNIQUE"):
        await table.insert(TopicRow(bytes(16), "t", 1, {"flush": "os"}))
    assert table.topics() == [ROW]


async def test_settings_of_the_node_are_replaced_as_a_whole(database: Database) -> None:
    table = TopicTable(database)
    await table.set_node_settings({"a": "1", "b": "2"})
    await table.set_node_settings({"b": "3"})
    assert table.node_settings() == {"b": "3"}
