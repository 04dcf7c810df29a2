"""Looks after an archive: joins its small files, and drops days that nobody wants any more."""

from collections import defaultdict
from datetime import date
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

from chordmq.archive.archiver import DAY_FOLDER, ROWS_PER_FILE_MAX, write_file
from chordmq.archive.files import ArchivedFile, file_name, read_rows
from chordmq.archive.table import Archive
from chordmq.client.bulk import OffsetRange


def compacted(archive: Archive, topic: str, rows_max: int = ROWS_PER_FILE_MAX) -> int:
    """Join neighbouring files of one partition and day; return how many were taken over.

    Each join is one snapshot of the table: readers see the old files or the new one, never both.
    """
    with archive.changing(topic):
        folders: dict[tuple[int, Path], list[ArchivedFile]] = defaultdict(list)
        for one in archive.files(topic).named:
            folders[one.partition, Path(one.path).parent].append(one)
        joined = 0
        for files in folders.values():
            for bundle in _bundles(sorted(files, key=lambda one: one.start), rows_max):
                _join(archive, bundle)
                joined += len(bundle)
        return joined


def _join(archive: Archive, bundle: list[ArchivedFile]) -> None:
    first, last = bundle[0], bundle[-1]
    whole = OffsetRange(first.topic, first.partition, first.start, last.stop)
    paths = [one.path for one in bundle]
    joined = write_file(
        Path(first.path).with_name(file_name(whole)), read_rows(paths, pc.scalar(True))
    )
    archive.replace(first.topic, paths, [joined])


def _bundles(files: list[ArchivedFile], rows_max: int) -> list[list[ArchivedFile]]:
    """Return neighbours that fit into one file together; one alone stays as it is."""
    bundles: list[list[ArchivedFile]] = []
    total = 0
    for one in files:
        rows = pq.read_metadata(one.path).num_rows
        if not bundles or total + rows > rows_max:
            bundles.append([])
            total = 0
        bundles[-1].append(one)
        total += rows
    return [bundle for bundle in bundles if len(bundle) > 1]


def expired(archive: Archive, topic: str, before: date) -> int:
    """Drop the files of all days before one; return how many there were."""
    with archive.changing(topic):
        old = [path for path in archive.files(topic).paths if _day(path) < before]
        if old:
            archive.replace(topic, old, [])
        for path in old:
            Path(path).unlink(missing_ok=True)
        return len(old)


def _day(path: str) -> date:
    return date.fromisoformat(Path(path).parent.name.removeprefix(DAY_FOLDER))
