"""The archive of one topic as an Iceberg table: which files belong to it, and how far it goes.

How far each partition is archived stands in the summary of the snapshot that adds its files, so
that both become true at once. A file that no snapshot names is left over from a crash and removed.
Whoever changes a topic is alone with it: `with archive.changing(topic)`.
"""

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError, TableAlreadyExistsError
from pyiceberg.io.pyarrow import parquet_file_to_data_file
from pyiceberg.table import FileScanTask, Table

from chordmq.archive.files import SUFFIX, ArchivedFile, named
from chordmq.archive.snapshots import PAST, drop_old
from chordmq.dataclass import dataclass
from chordmq.locks import locked
from chordmq.records.arrow import TYPES

NAMESPACE = "chordmq"
END = "chordmq.end."
"""The offset after the last archived one, by partition, in a snapshot's summary."""
TOPIC = "chordmq.topic"
SCHEMA = pa.schema([("partition", pa.int32()), *TYPES.items()])
ONE_ATTEMPT = {"commit.retry.num-retries": "0"}
"""A change that finds the table changed is refused: trying again would add its rows twice."""
READERS_S = 3600.0
_ILLEGAL = re.compile(r"[^A-Za-z0-9_]")


@dataclass(frozen=True, slots=True)
class Files:
    """Parquet files of one topic, and the offsets that they end before, by partition."""

    paths: list[str]
    ends: dict[int, int]

    @property
    def named(self) -> list[ArchivedFile]:
        """Return the files with what their names say."""
        return [named(path) for path in self.paths]


class TableNameTaken(Exception):
    """Two topics whose names differ only in dots, dashes and `_` cannot share an archive."""


class Archive:
    """All archived topics below one directory; `tell` hears whom a change has to wait for."""

    def __init__(self, directory: Path, tell: Callable[[str], None] = lambda _: None) -> None:
        self.directory = directory.absolute()
        self._tell = tell
        self._catalog = open_catalog(self.directory)

    def close(self) -> None:
        """Close the catalogue."""
        self._catalog.close()

    def topics(self) -> list[str]:
        """Return the topics that have been archived."""
        tables = [self._catalog.load_table(name) for name in self._catalog.list_tables(NAMESPACE)]
        return sorted(table.properties[TOPIC] for table in tables)

    def ends(self, topic: str) -> dict[int, int]:
        """Return how far each partition of a topic is archived."""
        table = self._find(topic)
        return {} if table is None else ends_of(table)

    def files(self, topic: str) -> Files:
        """Return what there is of a topic, as of now."""
        table = self._find(topic)
        if table is None:
            return Files([], {})
        return Files(sorted(map(path_of, table.scan().plan_files())), ends_of(table))

    def folder(self, topic: str) -> Path:
        """Return where the files of a topic lie."""
        return self.directory / "topics" / topic

    @contextmanager
    def changing(self, topic: str) -> Iterator[None]:
        """Wait until nobody else changes a topic, and keep others out within the block."""
        locks = self.directory / "locks"
        locks.mkdir(exist_ok=True)
        with locked(locks / f"{topic}.lock", self._tell):
            yield

    def add(self, topic: str, paths: Sequence[Path], ends: Mapping[int, int]) -> None:
        """Take in files, and note how far their partitions are archived with them."""
        table = self._find(topic) or self._create(topic)
        if table.schema().column_names != SCHEMA.names:
            with table.update_schema() as change:
                change.union_by_name(SCHEMA)
        summary = noted(ends_of(table) | dict(ends))
        table.add_files([f"file://{path}" for path in paths], snapshot_properties=summary)

    def replace(self, topic: str, old: Collection[str], new: Sequence[Path]) -> None:
        """Put new files in the place of old ones at once; how far the archive goes stays."""
        table = self._find(topic)
        assert table is not None, "nothing of the topic is archived"
        retire(old)
        exchange(table, old, new, noted(ends_of(table)))

    def sweep(self, topic: str, now_s: float) -> int:
        """Remove files that do not belong to the table, and return how many there were.

        One whose rows are in a larger file now is left for an hour to those who read it.
        """
        files = self.files(topic)
        known = {Path(path) for path in files.paths}
        stray = [path for path in self.folder(topic).rglob(f"*{SUFFIX}*") if path not in known]
        gone = [
            path
            for path in stray
            if now_s - path.stat().st_mtime >= READERS_S or not _is_taken_over(path, files.named)
        ]
        for path in gone:
            path.unlink()
        return len(gone)

    def forget(self, topic: str, now_ms: int) -> int:
        """Drop what the table was too long ago; return how many snapshots that were."""
        table = self._find(topic)
        return 0 if table is None else drop_old(table, now_ms)

    def _find(self, topic: str) -> Table | None:
        try:
            table = self._catalog.load_table(f"{NAMESPACE}.{table_name(topic)}")
        except NoSuchTableError:
            return None
        return table if table.properties[TOPIC] == topic else None

    def _create(self, topic: str) -> Table:
        name = table_name(topic)
        location = f"file://{self.directory / 'tables' / topic}"
        properties = {TOPIC: topic, **ONE_ATTEMPT, **PAST}
        try:
            return self._catalog.create_table(
                f"{NAMESPACE}.{name}", SCHEMA, location=location, properties=properties
            )
        except TableAlreadyExistsError:
            raise TableNameTaken(
                f"{self.directory} has a table {name} of another topic; give {topic} a directory "
                "of its own"
            ) from None


def open_catalog(directory: Path) -> SqlCatalog:
    """Return the catalogue of the tables below a directory, which is made if it is not there."""
    path = directory / "catalog.sqlite"
    if not path.exists():
        directory.mkdir(parents=True, exist_ok=True)
        with locked(directory / "catalog.lock"):
            if not path.exists():
                unfinished = path.with_suffix(".part")
                unfinished.unlink(missing_ok=True)
                catalog = _catalog(unfinished)
                catalog.create_namespace(NAMESPACE)
                catalog.close()
                unfinished.replace(path)
    return _catalog(path)


def _catalog(path: Path) -> SqlCatalog:
    return SqlCatalog(NAMESPACE, uri=f"sqlite:///{path}", warehouse=f"file://{path.parent}")


def exchange(
    table: Table, old: Collection[str], new: Iterable[Path], summary: dict[str, str]
) -> None:
    """Put new files in the place of old ones, in one snapshot with a summary of its own."""
    with (
        table.transaction() as change,
        change.update_snapshot(snapshot_properties=summary).overwrite() as update,
    ):
        for task in table.scan().plan_files():
            if path_of(task) in old:
                update.delete_data_file(task.file)
        for path in new:
            one = parquet_file_to_data_file(table.io, change.table_metadata, f"file://{path}")
            update.append_data_file(one)


def retire(paths: Iterable[str | Path]) -> None:
    """Begin the hour for which files, or folders of them, are left to their readers."""
    for path in paths:
        with suppress(FileNotFoundError):
            os.utime(path)


def path_of(task: FileScanTask) -> str:
    """Return where a file of a table lies."""
    return task.file.file_path.removeprefix("file://")


def _is_taken_over(path: Path, known: Iterable[ArchivedFile]) -> bool:
    if path.suffix != SUFFIX:
        return False
    old = named(str(path))
    return any(
        one.partition == old.partition
        and one.start <= old.start
        and one.stop >= old.stop
        and Path(one.path).parent == path.parent
        for one in known
    )


def table_name(topic: str) -> str:
    """Return a topic's name as SQL takes it: what is not a letter, digit or `_` becomes `_`."""
    return _ILLEGAL.sub("_", topic)


def noted(ends: Mapping[int, int]) -> dict[str, str]:
    """Return how far a table goes, as the summary of a snapshot says it."""
    return {f"{END}{partition}": str(end) for partition, end in ends.items()}


def ends_of(table: Table) -> dict[int, int]:
    """Return how far a table goes, by partition; nothing if it is new."""
    snapshot = table.current_snapshot()
    if snapshot is None or snapshot.summary is None:
        return {}
    summary = snapshot.summary.additional_properties
    return {
        int(name.removeprefix(END)): int(end)
        for name, end in summary.items()
        if name.startswith(END)
    }
