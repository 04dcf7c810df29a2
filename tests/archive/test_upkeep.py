"""An archive that is looked after: fewer files, the same rows, and only the days wanted."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event

import pyarrow as pa
import pytest

from chordmq.archive.archiver import Archiver, write_file
from chordmq.archive.files import file_name
from chordmq.archive.replay import Wanted, archived, counted
from chordmq.archive.table import READERS_S, SCHEMA, Archive
from chordmq.archive.upkeep import compacted, expired
from chordmq.client.bulk import Bulk, BulkSettings, OffsetRange
from chordmq.clock import SystemClock
from tests.archive.test_archiver import NOW_MS, fill, rows, stored
from tests.archive.test_table import TOPIC, a_file
from tests.running_node import RunningNode
from tests.waiting import wait_until

TODAY = datetime.fromtimestamp(NOW_MS / 1000, UTC).date()


@pytest.fixture
def archive(node: RunningNode, name: str, tmp_path: Path) -> Iterator[Archive]:
    """Give an archive of 60 records of two days, in many small files."""
    found = Archive(tmp_path / "archive")
    fill(node, name, rows(60), partitions=1)
    with Bulk(BulkSettings(bootstrap=node.bootstrap)) as broker:
        Archiver(broker, found, rows_max=10).archive(name)
    yield found
    found.close()


def order(archive: Archive, topic: str) -> list[int]:
    chunks = archived(archive, Wanted(topic=topic, into=""))
    return [int(record.value or b"") for chunk in chunks for record in chunk]


def test_small_files_are_joined_and_every_record_stays_once(archive: Archive, name: str) -> None:
    """P5: readers see the old files or the new one; the old ones go when nobody reads them."""
    before = archive.files(name)
    assert compacted(archive, name, rows_max=1_000) == len(before.paths) == 12
    after = archive.files(name)
    assert (len(after.paths), after.ends) == (2, before.ends)
    assert order(archive, name) == list(range(60))
    assert counted(archive, Wanted(topic=name, into="", start=5, stop=15)) == 10
    now_s = SystemClock().now_ms() / 1000
    assert archive.sweep(name, now_s) == 0
    assert archive.sweep(name, now_s + 2 * READERS_S) == 12
    assert stored(archive, name) == list(range(60))
    assert compacted(archive, name, rows_max=1_000) == 0


def test_files_that_are_large_enough_are_left_alone(archive: Archive, name: str) -> None:
    assert compacted(archive, name, rows_max=5) == 0
    compacted(archive, name, rows_max=20)
    assert order(archive, name) == list(range(60))


def test_readers_see_every_record_once_while_many_files_are_joined_in_steps(
    tmp_path: Path,
) -> None:
    """P5: 40 files of a partition and day become four and then one, beside a reader."""
    done = Event()
    readings: list[list[int]] = []

    def read() -> None:
        own = Archive(tmp_path)
        while not done.is_set():
            chunks = archived(own, Wanted(topic=TOPIC, into=""))
            places = [dict(record.headers) for chunk in chunks for record in chunk]
            readings.append([int(place["chordmq.origin.offset"] or b"") for place in places])
        own.close()

    archive = Archive(tmp_path)
    small = [a_file(archive, start, start + 10) for start in range(0, 400, 10)]
    archive.add(TOPIC, small, {0: 400})
    with ThreadPoolExecutor(1) as beside:
        reader = beside.submit(read)
        try:
            wait_until(lambda: bool(readings) or reader.done())
            assert compacted(archive, TOPIC, rows_max=100) == 40
            assert len(archive.files(TOPIC).paths) == 4
            assert compacted(archive, TOPIC, rows_max=1_000) == 4
            assert len(archive.files(TOPIC).paths) == 1
            seen = len(readings)
            # One may have begun before; the one after it sees what is left.
            wait_until(lambda: len(readings) >= seen + 2 or reader.done())
        finally:
            done.set()
        reader.result(60)
    assert all(reading == list(range(400)) for reading in readings)
    archive.close()


def test_days_that_nobody_wants_are_dropped(archive: Archive, name: str) -> None:
    """P5: retention of the archive itself; how far the log is archived does not change."""
    ends = archive.files(name).ends
    assert expired(archive, name, TODAY) == 6
    assert expired(archive, name, TODAY) == 0
    assert stored(archive, name) == list(range(0, 60, 2))
    assert archive.files(name).ends == ends
    assert expired(archive, name, TODAY + timedelta(days=2)) == 6
    assert stored(archive, name) == []


def test_a_table_of_an_older_version_gets_the_columns_that_are_new(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P5: the schema evolves; files without a column read as null."""
    old = pa.schema([field for field in SCHEMA if field.name != "headers"])
    row = {"partition": 0, "offset": 0, "value": b"1", "timestamp": datetime.now(UTC)}

    def add(archive: Archive, schema: pa.Schema, start: int) -> None:
        part = OffsetRange(name, 0, start, start + 1)
        folder = archive.folder(name) / f"date={TODAY}"
        folder.mkdir(parents=True, exist_ok=True)
        table = pa.Table.from_pylist([row | {"offset": start}], schema)
        archive.add(name, [write_file(folder / file_name(part), table)], {0: start + 1})

    archive = Archive(tmp_path / "archive")
    with monkeypatch.context() as patched:
        patched.setattr("chordmq.archive.table.SCHEMA", old)
        add(archive, old, 0)
    add(archive, SCHEMA, 1)
    assert compacted(archive, name) == 2
    records = [one for chunk in archived(archive, Wanted(topic=name, into="")) for one in chunk]
    assert [one.value for one in records] == [b"1", b"1"]
    archive.close()
