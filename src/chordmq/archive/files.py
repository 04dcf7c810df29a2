"""The Parquet files of an archived topic: which offsets each may have, and their rows in order."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from chordmq.client.bulk import OffsetRange
from chordmq.dataclass import dataclass

SUFFIX = ".parquet"
MOMENT = pa.timestamp("ms", tz="UTC")


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    """One file: records of one partition and day with start <= offset < stop."""

    path: str
    topic: str
    partition: int
    start: int
    stop: int


def file_name(part: OffsetRange) -> str:
    """Return how the file of a range is called; ranges sort as their names do."""
    return f"{part.topic}-{part.partition}-{part.start:020}-{part.stop:020}{SUFFIX}"


def named(path: str) -> ArchivedFile:
    """Return what the name of a file says."""
    topic, partition, start, stop = Path(path).name.removesuffix(SUFFIX).rsplit("-", 3)
    return ArchivedFile(path, topic, int(partition), int(start), int(stop))


def covering(
    files: Iterable[ArchivedFile], wanted: OffsetRange
) -> list[tuple[OffsetRange, list[str]]]:
    """Cut a range where files begin and end; return each piece that has files, in order."""
    begin, end = wanted.start, wanted.stop
    own = [one for one in files if one.partition == wanted.partition]
    own = [one for one in own if one.start < end and one.stop > begin]
    edges = {min(max(edge, begin), end) for one in own for edge in (one.start, one.stop)}
    pieces = []
    for start, stop in pairwise(sorted(edges)):
        paths = [one.path for one in own if one.start < stop and one.stop > start]
        if paths:
            piece = OffsetRange(wanted.topic, wanted.partition, start, stop)
            pieces.append((piece, sorted(paths)))
    return pieces


def read_rows(paths: Sequence[str], wanted: Any, columns: Sequence[str] | None = None) -> pa.Table:
    """Return the rows of some files that pass a filter, in the order of their offsets."""
    chosen = None if columns is None else sorted({*columns, "offset"})
    tables = [
        # The day in a folder's name is no column of the records.
        pq.read_table(path, columns=chosen, filters=wanted, partitioning=None)
        for path in paths
    ]
    whole = pa.concat_tables(tables, promote_options="default")
    return whole.sort_by("offset") if len(tables) > 1 else whole


def within(part: OffsetRange) -> Any:
    """Return a filter that lets the offsets of a range pass."""
    return (pc.field("offset") >= part.start) & (pc.field("offset") < part.stop)


def first_since(files: Iterable[ArchivedFile], partition: int, time_ms: int) -> int | None:
    """Return the first archived offset of a partition whose record is not older than a time."""
    later = pc.field("timestamp") >= pa.scalar(time_ms, MOMENT)
    found: int | None = None
    for one in sorted(files, key=lambda one: one.start):
        if one.partition != partition or (found is not None and one.start >= found):
            continue
        rows = read_rows([one.path], later, ["offset"])
        if rows.num_rows:
            least = pc.min(rows["offset"]).as_py()
            found = least if found is None else min(found, least)
    return found
