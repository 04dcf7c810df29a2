"""Reads what one task has to read: from a node's files, the broker, or the archive."""

from collections.abc import Generator, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from chordmq.client.bulk import Bulk, Fetched, OffsetRange
from chordmq.client.segments import logs_in_sight, read_segments
from chordmq.records.arrow import TYPES, Columns
from chordmq.records.columns import DECODER, ROWS_MAX, read_columns
from pyspark_chordmq.envelopes import ENVELOPE, envelopes
from pyspark_chordmq.options import Options
from pyspark_chordmq.tasks import Part, Task

ROWS_FROM_FILES_MIN = 20_000
"""To read fewer, it is not worth while to ask where the files are."""
CHUNK_BYTES = max(2 * 1024 * 1024, DECODER.PORTION_BYTES)
"""What is read of a file at once; a batch that is larger is asked of the broker."""
PLACES: dict[str, pa.DataType] = {"topic": pa.string(), "partition": pa.int32()}
KINDS = TYPES | PLACES | {"envelope": ENVELOPE}


def read_task(options: Options, names: list[str], task: Task) -> Iterator[pa.RecordBatch]:
    """Yield the records of a task as Arrow batches."""
    schema = pa.schema([(name, KINDS[name]) for name in names])
    wanted = [name for name in TYPES if name in names]
    if "envelope" in names and "value" not in names:
        wanted.append("value")
    with _Log(options) as log:
        for part in task.parts:
            for columns in _from_archive(part, wanted) if part.files else log.read(part, wanted):
                whole = {**columns.arrays, **_places(names, part.offsets, columns.count)}
                if "envelope" in names:
                    whole["envelope"] = envelopes(whole["value"])
                yield pa.RecordBatch.from_arrays([whole[name] for name in names], schema=schema)


class _Log:
    """The log, from a node's files or the broker, which is only reached when it is asked."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._opened = ExitStack()
        self._known: Bulk | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def read(self, part: Part, wanted: list[str]) -> Iterator[Columns]:
        """Yield columns of the records of a part."""
        start, stop = part.offsets.start, part.offsets.stop
        for data, visible in self._fetched(part.offsets):
            yield from read_columns(data, visible.batches, wanted, start=start, stop=stop)

    def _fetched(self, part: OffsetRange) -> Iterator[Fetched]:
        """Yield what a node's files have, if they are here, and the rest as the broker sends it."""
        options = self._options
        if options.data_directory:
            part = yield from self._stored(part, Path(options.data_directory) / "topics")
        elif options.local_files and part.size >= ROWS_FROM_FILES_MIN:
            found = logs_in_sight(self._broker(), part)
            part = part if found is None else (yield from self._stored(part, found))
        if part.size:
            yield from self._broker().fetch(part)

    def _stored(self, part: OffsetRange, logs: Path) -> Generator[Fetched, None, OffsetRange]:
        """Yield what files have of a range, and return the rest of it."""
        offset = part.start
        committed = self._options.read_committed
        for chunk in read_segments(logs, part, committed=committed, chunk_bytes=CHUNK_BYTES):
            offset = min(chunk.visible.next_offset, part.stop)
            yield chunk
        return replace(part, start=offset)

    def _broker(self) -> Bulk:
        if self._known is None:
            self._known = self._opened.enter_context(Bulk(self._options.bulk()))
        return self._known


def _from_archive(part: Part, wanted: list[str]) -> Iterator[Columns]:
    from chordmq.archive.files import read_rows, within

    table = read_rows(part.files, within(part.offsets), wanted)
    for batch in table.combine_chunks().to_batches(ROWS_MAX):
        arrays = {name: batch.column(name).cast(TYPES[name]) for name in wanted}
        yield Columns(batch.num_rows, arrays)


def _places(names: list[str], part: OffsetRange, count: int) -> dict[str, Any]:
    values: dict[str, Any] = {"topic": part.topic, "partition": part.partition}
    return {
        name: pa.repeat(pa.scalar(values[name], kind), count)
        for name, kind in PLACES.items()
        if name in names
    }
