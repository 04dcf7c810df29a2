"""Reads what one task has to read: from a node's files, the broker, or the archive."""

from collections.abc import Generator, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from chordmq.client.bulk import Bulk, Fetched, OffsetRange
from chordmq.client.segments import logs_in_sight, read_segments
from chordmq.records.arrow import TYPES
from chordmq.records.columns import ROWS_MAX, read_columns
from pyspark_chordmq.envelopes import ENVELOPE, envelopes
from pyspark_chordmq.options import Options
from pyspark_chordmq.tasks import Part

ROWS_FROM_FILES_MIN = 20_000
"""To read fewer, it is not worth while to ask where the files are."""
PLACES: dict[str, pa.DataType] = {"topic": pa.string(), "partition": pa.int32()}
KINDS = TYPES | PLACES | {"envelope": ENVELOPE}


def read_part(options: Options, names: list[str], part: Part) -> Iterator[pa.RecordBatch]:
    """Yield the records of a task as Arrow batches."""
    schema = pa.schema([(name, KINDS[name]) for name in names])
    wanted = [name for name in TYPES if name in names]
    if "envelope" in names and "value" not in names:
        wanted.append("value")
    source = _from_archive(part, wanted) if part.files else _from_log(options, part.offsets, wanted)
    for count, arrays in source:
        whole = {**arrays, **_places(names, part.offsets, count)}
        if "envelope" in names:
            whole["envelope"] = envelopes(arrays["value"])
        yield pa.RecordBatch.from_arrays([whole[name] for name in names], schema=schema)


def _from_log(
    options: Options, part: OffsetRange, wanted: list[str]
) -> Iterator[tuple[int, Mapping[str, pa.Array]]]:
    for data, visible in _fetched(options, part):
        for columns in read_columns(
            data, visible.batches, wanted, start=part.start, stop=part.stop
        ):
            yield columns.count, columns.arrays


def _fetched(options: Options, part: OffsetRange) -> Iterator[Fetched]:
    """Yield what a node's files have, if they are here, and the rest as the broker sends it."""
    if options.data_directory:
        logs = Path(options.data_directory) / "topics"
        part = yield from _stored(options, part, logs)
    if not part.size:
        return
    with Bulk(options.bulk()) as broker:
        if options.local_files and part.size >= ROWS_FROM_FILES_MIN:
            logs_found = logs_in_sight(broker, part)
            if logs_found is not None:
                part = yield from _stored(options, part, logs_found)
        if part.size:
            yield from broker.fetch(part)


def _stored(
    options: Options, part: OffsetRange, logs: Path
) -> Generator[Fetched, None, OffsetRange]:
    """Yield what files have of a range, and return the rest of it."""
    offset = part.start
    for chunk in read_segments(logs, part, committed=options.read_committed):
        offset = min(chunk.visible.next_offset, part.stop)
        yield chunk
    return replace(part, start=offset)


def _from_archive(part: Part, wanted: list[str]) -> Iterator[tuple[int, Mapping[str, pa.Array]]]:
    from chordmq.archive.files import read_rows, within

    table = read_rows(part.files, within(part.offsets), wanted)
    for batch in table.combine_chunks().to_batches(ROWS_MAX):
        yield batch.num_rows, {name: batch.column(name).cast(TYPES[name]) for name in wanted}


def _places(names: list[str], part: OffsetRange, count: int) -> dict[str, Any]:
    values: dict[str, Any] = {"topic": part.topic, "partition": part.partition}
    return {
        name: pa.repeat(pa.scalar(values[name], kind), count)
        for name, kind in PLACES.items()
        if name in names
    }
