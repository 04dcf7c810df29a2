"""Typed tables: files of others in Iceberg tables that know how far they are."""

import os
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.exceptions import CommitFailedException

from chordmq.archive.snapshots import AGE_MS_MAX, DROPPED_MIN, KEPT_MIN
from chordmq.archive.table import READERS_S, open_catalog
from chordmq.archive.typed import READINGS, SILVER, TypedTable, TypedTables
from chordmq.clock import SystemClock

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[TypedTables]:
    with TypedTables(tmp_path / "archive") as found:
        yield found


def a_file(table: TypedTable, offset: int, time: datetime = NOON, part: str = "part=x") -> Path:
    """Write one reading as a batch of its own, as Spark would."""
    row = {
        "messageId": f"m{offset}", "deviceId": "d", "metric": "temperature", "value": 1.0,
        "unit": "C", "time": time, "received": time, "sourceTopic": "t", "sourcePartition": 0,
        "sourceOffset": offset,
    }  # fmt: skip
    path = table.folder / uuid4().hex / part / "rows.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist([row], READINGS), path)
    return path


def test_files_and_how_far_they_go_become_true_at_once(tables: TypedTables) -> None:
    """P5, P6: whoever opens a table later knows what it has."""
    silver = tables.readings("plant")
    assert (silver.ends, silver.snapshot, silver.paths()) == ({}, None, [])
    first = a_file(silver, 4)
    silver.add([first], {0: 5})
    before = silver.snapshot
    silver.add([second := a_file(silver, 7)], {1: 8})
    again = tables.readings("plant")
    assert again.ends == {0: 5, 1: 8}
    assert again.paths() == sorted(map(str, [first, second]))
    assert again.added(before) == [str(second)]
    assert tables.named() == {"plant_readings": again.paths()}


def test_who_has_not_seen_the_newest_state_changes_nothing(tables: TypedTables) -> None:
    """P6: of two writers of the same batch one is refused, whole."""
    one, other = tables.readings("plant"), tables.readings("plant")
    one.add([a_file(one, 0)], {0: 1})
    other = tables.readings("plant")
    one.add([a_file(one, 1)], {0: 2})
    with pytest.raises(CommitFailedException):
        other.add([a_file(other, 1)], {0: 2})
    assert len(tables.readings("plant").paths()) == 2


def test_only_the_files_of_a_time_are_looked_at(tables: TypedTables) -> None:
    """P5: partitioned by the day of the readings."""
    silver = tables.readings("plant")
    later = NOON + timedelta(days=1)
    today, tomorrow = a_file(silver, 0), a_file(silver, 1, later)
    silver.add([today, tomorrow], {0: 2})
    assert silver.paths(f"time >= '{later.isoformat()}'") == [str(tomorrow)]


def test_files_that_are_replaced_stay_for_their_readers_for_an_hour(tables: TypedTables) -> None:
    silver = tables.readings("plant")
    old, lost = a_file(silver, 0), a_file(silver, 9)
    silver.add([old], {0: 1})
    os.utime(old.parents[1], (0, 0))
    silver.replace([str(old)], [new := a_file(silver, 0)], source=7)
    assert (silver.paths(), silver.ends, silver.source) == ([str(new)], {0: 1}, 7)
    now_s = SystemClock().now_ms() / 1000
    assert silver.sweep(now_s) == 0
    assert silver.sweep(now_s + 2 * READERS_S) == 2
    assert [path.exists() for path in (old, lost, new)] == [False, False, True]


def test_what_a_table_was_long_ago_is_dropped(tables: TypedTables, tmp_path: Path) -> None:
    """P5: rows and progress stay, and whoever asks for a time that is gone gets all files."""
    silver = tables.readings("plant")
    silver.add([a_file(silver, 0)], {0: 1})
    first = silver.snapshot
    with (
        closing(open_catalog(tmp_path / "archive")) as catalog,
        catalog.load_table((SILVER, "plant_readings")).transaction() as change,
    ):
        change.set_properties({AGE_MS_MAX: "1000", KEPT_MIN: "3"})
    silver = tables.readings("plant")
    for number in range(1, 2 * DROPPED_MIN):
        silver.add([a_file(silver, number)], {0: number + 1})
    assert len(silver.added(first)) == 2 * DROPPED_MIN - 1
    now_ms = SystemClock().now_ms()
    assert silver.forget(now_ms - 3_600_000) == 0
    assert silver.forget(now_ms + 3_600_000) == 2 * DROPPED_MIN - 3
    assert silver.ends == {0: 2 * DROPPED_MIN}
    assert silver.added(first) == silver.paths()
    assert len(silver.paths()) == 2 * DROPPED_MIN
    silver.add([a_file(silver, 99)], {0: 100})
    assert tables.readings("plant").ends == {0: 100}
