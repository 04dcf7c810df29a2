"""Which files of an archive have which offsets."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chordmq.archive.files import covering, file_name, first_since, named, read_rows, within
from chordmq.client.bulk import OffsetRange

DAY = datetime(2026, 11, 1, tzinfo=UTC)


def part(start: int, stop: int, partition: int = 0) -> OffsetRange:
    return OffsetRange("a-topic-1", partition, start, stop)


def test_a_name_says_what_a_file_has() -> None:
    one = named(f"/x/date=2026-11-01/{file_name(part(5, 9, partition=3))}")
    assert (one.topic, one.partition, one.start, one.stop) == ("a-topic-1", 3, 5, 9)


def test_a_range_is_cut_where_files_begin_and_end() -> None:
    files = [named(file_name(one)) for one in (part(0, 10), part(10, 20), part(15, 30))]
    files.append(named(file_name(part(0, 99, partition=1))))
    pieces = covering(files, part(4, 18))
    assert [(one.start, one.stop, len(paths)) for one, paths in pieces] == [
        (4, 10, 1),
        (10, 15, 1),
        (15, 18, 2),
    ]


@pytest.fixture
def days(tmp_path: Path) -> list[str]:
    """Give two files of one range, as two days of it are written."""
    paths = []
    for number, offsets in enumerate([[0, 2, 4], [1, 3]]):
        path = tmp_path / f"date={number}" / file_name(part(0, 5))
        path.parent.mkdir()
        times = [DAY + timedelta(days=number, milliseconds=offset) for offset in offsets]
        kind = pa.timestamp("us", tz="UTC")
        pq.write_table(pa.table({"offset": offsets, "timestamp": pa.array(times, kind)}), path)
        paths.append(str(path))
    return paths


def test_rows_of_several_days_come_in_the_order_of_their_offsets(days: list[str]) -> None:
    assert read_rows(days, within(part(1, 4)))["offset"].to_pylist() == [1, 2, 3]
    assert read_rows(days, within(part(0, 9)), ["offset"]).column_names == ["offset"]


def test_a_time_is_found_in_whichever_file_has_its_first_record(days: list[str]) -> None:
    files = [named(path) for path in days]
    tomorrow_ms = int((DAY + timedelta(days=1)).timestamp() * 1000)
    assert first_since(files, 0, tomorrow_ms) == 1
    assert first_since(files, 0, tomorrow_ms - 86_400_000) == 0
    assert first_since(files, 0, tomorrow_ms + 99) is None
    assert first_since(files, 7, 0) is None
