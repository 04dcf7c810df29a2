"""Archived topics as tables: what each holds, and who may change it."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from chordmq.archive.archiver import write_file
from chordmq.archive.files import file_name
from chordmq.archive.table import READERS_S, SCHEMA, Archive, TableNameTaken
from chordmq.client.bulk import OffsetRange
from chordmq.clock import SystemClock

TOPIC = "orders.new"
NOW_MS = SystemClock().now_ms()


def a_file(archive: Archive, start: int, stop: int, topic: str = TOPIC) -> Path:
    """Write a file with a row for each offset."""
    rows = [
        {"partition": 0, "offset": offset, "timestamp": NOW_MS} for offset in range(start, stop)
    ]
    folder = archive.folder(topic) / "date=2026-11-01"
    folder.mkdir(parents=True, exist_ok=True)
    part = OffsetRange(topic, 0, start, stop)
    return write_file(folder / file_name(part), pa.Table.from_pylist(rows, SCHEMA))


def test_an_archive_is_made_once_by_all_who_open_it_at_the_same_time(tmp_path: Path) -> None:
    def opened(_: int) -> list[str]:
        archive = Archive(tmp_path / "new" / "archive")
        found = archive.topics()
        archive.close()
        return found

    with ThreadPoolExecutor(8) as many:
        assert list(many.map(opened, range(16))) == [[]] * 16


def test_topics_whose_tables_would_have_one_name_do_not_mix(archive: Archive) -> None:
    """P5: the second is refused; nobody takes the first one's offsets for its own."""
    archive.add(TOPIC, [a_file(archive, 0, 5)], {0: 5})
    other = "orders_new"
    assert (archive.ends(other), archive.files(other).paths) == ({}, [])
    with pytest.raises(TableNameTaken, match=f"orders_new of another topic; give {other}"):
        archive.add(other, [a_file(archive, 0, 1, other)], {0: 1})
    assert archive.topics() == [TOPIC]


def test_old_files_stay_an_hour_after_they_are_replaced_however_old_they_are(
    archive: Archive,
) -> None:
    """P5: somebody may have begun to read them just before."""
    old = [a_file(archive, 0, 5), a_file(archive, 5, 10)]
    archive.add(TOPIC, old, {0: 10})
    for path in old:
        os.utime(path, (0, 0))
    archive.replace(TOPIC, [*map(str, old)], [a_file(archive, 0, 10)])
    now_s = SystemClock().now_ms() / 1000
    assert archive.sweep(TOPIC, now_s) == 0
    assert archive.sweep(TOPIC, now_s + READERS_S + 1) == 2
