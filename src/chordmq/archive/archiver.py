"""Moves what topics hold into Parquet files, exactly once, a range of offsets at a time."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from chordmq.archive.files import file_name
from chordmq.archive.table import SCHEMA, Archive
from chordmq.client.bulk import Bulk, OffsetRange
from chordmq.client.offsets import EARLIEST_TIME, LATEST_TIME
from chordmq.clock import Clock, SystemClock
from chordmq.dataclass import dataclass
from chordmq.records.columns import read_columns

ROWS_PER_FILE_MAX = 2_000_000
DAY, DAY_FOLDER = "%Y-%m-%d", "date="


@dataclass(frozen=True, slots=True)
class Moved:
    """What one round has archived."""

    records: int = 0
    files: int = 0
    bytes: int = 0
    lost: int = 0
    """Offsets that the log dropped before they were archived; trim a log instead of letting it."""

    def __add__(self, other: "Moved") -> "Moved":
        """Return both together."""
        return Moved(
            self.records + other.records,
            self.files + other.files,
            self.bytes + other.bytes,
            self.lost + other.lost,
        )


class Archiver:
    """Archives topics of one broker into one archive."""

    def __init__(
        self,
        broker: Bulk,
        archive: Archive,
        *,
        clock: Clock | None = None,
        rows_max: int = ROWS_PER_FILE_MAX,
    ) -> None:
        self._broker = broker
        self._archive = archive
        self._clock = clock or SystemClock()
        self._rows_max = rows_max

    def archive(self, topic: str) -> Moved:
        """Archive everything that is committed now and not archived yet."""
        with self._archive.changing(topic):
            self._archive.sweep(topic, self._clock.now_ms() / 1000)
            moved = self._archive_rest(topic)
            self._archive.forget(topic, self._clock.now_ms())
            return moved

    def _archive_rest(self, topic: str) -> Moved:
        done = self._archive.ends(topic)
        places = self._broker.places_of([topic])
        first = self._broker.offsets(dict.fromkeys(places, EARLIEST_TIME))
        last = self._broker.offsets(dict.fromkeys(places, LATEST_TIME))
        moved = Moved()
        for place in places:
            _, partition = place
            reached = done.get(partition, first[place])
            moved += Moved(lost=max(0, first[place] - reached))
            start = max(first[place], reached)
            for part in _cut(OffsetRange(topic, partition, start, last[place]), self._rows_max):
                files = self._write(part)
                self._archive.add(topic, [path for path, _ in files], {partition: part.stop})
                rows = sum(rows for _, rows in files)
                moved += Moved(rows, len(files), sum(path.stat().st_size for path, _ in files))
        return moved

    def trim(self, topic: str, keep_ms: int) -> dict[int, int]:
        """Delete from the log what is archived and older than some time; return where it begins.

        Whoever lets the archive decide what the log keeps loses nothing when the archive is late.
        """
        done = self._archive.ends(topic)
        since_ms = self._clock.now_ms() - keep_ms
        places = [place for place in self._broker.places_of([topic]) if place[1] in done]
        young = self._broker.offsets(dict.fromkeys(places, since_ms))
        bounds = {place: min(young[place], done[place[1]]) for place in places}
        first = self._broker.offsets(dict.fromkeys(places, EARLIEST_TIME))
        later = {place: bound for place, bound in bounds.items() if bound > first[place]}
        self._broker.delete_before(later)
        return {partition: offset for (_, partition), offset in (first | later).items()}

    def _write(self, part: OffsetRange) -> list[tuple[Path, int]]:
        """Write a range, a file for each day that its records name; all are on disk after."""
        tables: dict[str, list[pa.RecordBatch]] = {}
        for batch in read_batches(self._broker, part):
            for day, rows in _by_day(batch):
                tables.setdefault(day, []).append(rows)
        return [
            (self._write_day(part, day, pa.Table.from_batches(batches, SCHEMA)), _rows(batches))
            for day, batches in tables.items()
        ]

    def _write_day(self, part: OffsetRange, day: str, table: pa.Table) -> Path:
        folder = self._archive.folder(part.topic) / f"{DAY_FOLDER}{day}"
        folder.mkdir(parents=True, exist_ok=True)
        return write_file(folder / file_name(part), table)


def write_file(path: Path, table: pa.Table) -> Path:
    """Write a file whole: it has its name only when the disk has it."""
    unfinished = path.with_name(f"{path.name}.part")
    pq.write_table(table, unfinished, compression="zstd", compression_level=1)
    flush(unfinished)
    unfinished.replace(path)
    flush(path.parent)
    return path


def _rows(batches: list[pa.RecordBatch]) -> int:
    return sum(batch.num_rows for batch in batches)


def read_batches(broker: Bulk, part: OffsetRange) -> Iterator[pa.RecordBatch]:
    """Yield the records of a range with the columns of the archive."""
    names = [name for name in SCHEMA.names if name != "partition"]
    for data, visible in broker.fetch(part):
        found = read_columns(data, visible.batches, names, start=part.start, stop=part.stop)
        for columns in found:
            partition = pa.repeat(pa.scalar(part.partition, pa.int32()), columns.count)
            arrays = [partition, *(columns.arrays[name] for name in names)]
            yield pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _by_day(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    days = pc.floor_temporal(batch.column("timestamp"), unit="day")
    for day in pc.unique(days).to_pylist():
        assert isinstance(day, datetime)
        rows = batch.filter(pc.equal(days, pa.scalar(day, days.type)))
        yield day.astimezone(UTC).strftime(DAY), rows


def _cut(whole: OffsetRange, rows_max: int) -> Iterator[OffsetRange]:
    for start in range(whole.start, whole.stop, rows_max):
        stop = min(start + rows_max, whole.stop)
        yield OffsetRange(whole.topic, whole.partition, start, stop)


def flush(path: Path) -> None:
    """Wait until the disk has a file, or the names in a folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
