"""Typed tables beside an archive: Iceberg tables of files that Spark writes.

How far a table goes stands in the summary of the snapshot that brings its files, as it does for
archived topics: whoever repeats a batch reads there what he has done. A table is changed from the
state in which it was opened, or not at all.
"""

import shutil
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.table import Table, TableProperties
from pyiceberg.transforms import DayTransform, HourTransform, Transform

from chordmq.archive.files import SUFFIX
from chordmq.archive.snapshots import PAST, drop_old
from chordmq.archive.table import (
    ONE_ATTEMPT,
    READERS_S,
    ends_of,
    exchange,
    noted,
    open_catalog,
    path_of,
    retire,
    table_name,
)

ALWAYS_TRUE = AlwaysTrue()
SILVER, GOLD = "silver", "gold"
SOURCE = "chordmq.source"
"""The snapshot of another table that this one was made of, in a snapshot's summary."""
MOMENT = pa.timestamp("us", tz="UTC")
READINGS = pa.schema(
    [
        ("messageId", pa.string()),
        ("deviceId", pa.string()),
        ("metric", pa.string()),
        ("value", pa.float64()),
        ("unit", pa.string()),
        ("time", MOMENT),
        ("received", MOMENT),
        ("sourceTopic", pa.string()),
        ("sourcePartition", pa.int32()),
        ("sourceOffset", pa.int64()),
    ]
)
"""One row for each reading, and where it lies in the log."""
HOURLY = pa.schema(
    [
        ("start", MOMENT),
        ("end", MOMENT),
        ("deviceId", pa.string()),
        ("metric", pa.string()),
        ("unit", pa.string()),
        ("count", pa.int64()),
        *((name, pa.float64()) for name in ("mean", "min", "max", "p50", "p95", "p99")),
    ]
)
"""One row for each device, metric and hour."""


class TypedTable:
    """A table as it is when it is opened."""

    def __init__(self, table: Table, folder: Path) -> None:
        self._table = table
        self.folder = folder

    @property
    def ends(self) -> dict[int, int]:
        """Return how far each partition of the topic has been taken over."""
        return ends_of(self._table)

    @property
    def snapshot(self) -> int | None:
        """Return what the table is now; None while it is empty."""
        current = self._table.current_snapshot()
        return None if current is None else current.snapshot_id

    @property
    def source(self) -> int | None:
        """Return the snapshot of another table that this one was made of."""
        current = self._table.current_snapshot()
        if current is None or current.summary is None:
            return None
        said = current.summary.additional_properties.get(SOURCE)
        return None if said is None else int(said)

    def paths(self, wanted: str | BooleanExpression = ALWAYS_TRUE) -> list[str]:
        """Return the files that may have rows which pass a filter."""
        found = self._table.scan(row_filter=wanted).plan_files()
        return sorted(map(path_of, found))

    def added(self, since: int | None) -> list[str]:
        """Return the files that an earlier snapshot has not; all if it is not known any more."""
        if since is None or self._table.snapshot_by_id(since) is None:
            return self.paths()
        known = set(map(path_of, self._table.scan(snapshot_id=since).plan_files()))
        return [path for path in self.paths() if path not in known]

    def add(self, files: Sequence[Path], ends: dict[int, int]) -> None:
        """Take in files, and note how far they go."""
        self._change([], files, noted(self.ends | ends))

    def replace(
        self, old: Collection[str], new: Sequence[Path], *, source: int | None = None
    ) -> None:
        """Put new files in the place of old ones at once; how far the table goes stays."""
        retire({self.folder / self._batch(path) for path in old})
        said = noted(self.ends)
        self._change(old, new, said if source is None else said | {SOURCE: str(source)})

    def _change(self, old: Collection[str], new: Sequence[Path], summary: dict[str, str]) -> None:
        exchange(self._table, old, new, summary)
        self._table.refresh()

    def sweep(self, now_s: float) -> int:
        """Remove batches none of whose files is in the table any more, after an hour for readers.

        Each batch is a folder. One that no snapshot names is left over from a crash.
        """
        known = set(map(self._batch, self.paths()))
        batches = [one for one in self.folder.glob("*") if one.name not in known]
        gone = [one for one in batches if now_s - one.stat().st_mtime >= READERS_S]
        for one in gone:
            shutil.rmtree(one)
        return len(gone)

    def forget(self, now_ms: int) -> int:
        """Drop what the table was too long ago; return how many snapshots that were."""
        count = drop_old(self._table, now_ms)
        if count:
            self._table.refresh()
        return count

    def _batch(self, path: str) -> str:
        """Return the name of the folder of the batch that a file came with."""
        return Path(path).relative_to(self.folder).parts[0]


class TypedTables:
    """The typed tables of one archive; use it in a `with` block."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory.absolute()
        self._catalog = open_catalog(self._directory)

    def __enter__(self) -> "TypedTables":
        """Give the tables."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the catalogue."""
        self._catalog.close()

    def readings(self, root: str) -> TypedTable:
        """Open the silver table: readings by the day of their own time."""
        return self._open(SILVER, f"{root}_readings", READINGS, ("time", DayTransform()))

    def hourly(self, root: str) -> TypedTable:
        """Open the gold table: what the hours of each device and metric were like."""
        return self._open(GOLD, f"{root}_hourly", HOURLY, ("start", HourTransform()))

    def named(self) -> dict[str, list[str]]:
        """Return the files of every table that has some, by the name that SQL knows it by."""
        found = {}
        for namespace in (SILVER, GOLD):
            if self._catalog.namespace_exists(namespace):
                for identifier in self._catalog.list_tables(namespace):
                    tasks = self._catalog.load_table(identifier).scan().plan_files()
                    found[identifier[-1]] = sorted(map(path_of, tasks))
        return {name: paths for name, paths in found.items() if paths}

    def _open(
        self, namespace: str, name: str, schema: pa.Schema, by: tuple[str, Transform[Any, Any]]
    ) -> TypedTable:
        self._catalog.create_namespace_if_not_exists(namespace)
        name = table_name(name)
        folder = self._directory / namespace / name
        try:
            table = self._catalog.load_table((namespace, name))
        except NoSuchTableError:
            table = _created(self._catalog, (namespace, name), schema, by, folder)
        return TypedTable(table, folder / "files")


def _created(
    catalog: SqlCatalog,
    identifier: tuple[str, str],
    schema: pa.Schema,
    by: tuple[str, Transform[Any, Any]],
    folder: Path,
) -> Table:
    location = f"file://{folder}"
    with catalog.create_table_transaction(identifier, schema, location=location) as change:
        with change.update_spec() as spec:
            spec.add_field(by[0], by[1], f"{by[0]}_{by[1]}")
        # Files of Spark know columns by their names, tables of Iceberg by their numbers.
        mapping = change.table_metadata.schema().name_mapping.model_dump_json()
        change.set_properties(
            {TableProperties.DEFAULT_NAME_MAPPING: mapping, **ONE_ATTEMPT, **PAST}
        )
    return catalog.load_table(identifier)


def files_below(folder: Path) -> list[Path]:
    """Return the files of a batch, in the folders of their partitions."""
    return sorted(folder.rglob(f"*{SUFFIX}"))
