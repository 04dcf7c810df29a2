"""Reads topics for Spark: plans ranges of offsets on the driver, decodes to Arrow in workers."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from chordmq.client.bulk import Bulk, OffsetRange
from chordmq.records.columns import TYPES, read_columns
from pyspark_chordmq.options import EARLIEST, LATEST, BadOption, Bound, Options
from pyspark_chordmq.ranges import (
    Json,
    Offsets,
    Place,
    from_json,
    limited,
    ranges_between,
    split,
    to_json,
)

ROWS_PER_BATCH_MAX = 65_536
"""Spark takes Arrow batches of any size, but holds one whole in memory on both sides."""
PLACES: dict[str, pa.DataType] = {"topic": pa.string(), "partition": pa.int32()}


class RangePartition(InputPartition):
    """What one task reads."""

    def __init__(self, part: OffsetRange) -> None:
        super().__init__(part)
        self.part = part


class BatchReader(DataSourceReader):
    """A topic between two offsets as a table."""

    def __init__(self, options: Options, names: list[str]) -> None:
        self._options = options
        self._names = names

    def partitions(self) -> Sequence[InputPartition]:
        """Look up where the table starts and stops, and cut it into tasks."""
        options = self._options
        with Bulk(options.bulk()) as broker:
            places = options.places(broker)
            first = broker.offsets(dict.fromkeys(places, EARLIEST))
            start = resolved(broker, options.start, places, "startingOffsets")
            stop = resolved(broker, options.stop, places, "endingOffsets")
        if not options.fail_on_data_loss:
            start = {place: max(offset, first[place]) for place, offset in start.items()}
        ranges = ranges_between(start, stop, first)
        parts = split(ranges, options.tasks_min, options.rows_per_task)
        return [RangePartition(part) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield Arrow batches; runs in a Python worker."""
        assert isinstance(partition, RangePartition)
        return read_range(self._options, self._names, partition.part)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Topics as a stream; its offsets are kept in the query's checkpoint."""

    def __init__(self, options: Options, names: list[str]) -> None:
        self._options = options
        self._names = names
        self._broker: Bulk | None = None
        self._end: Offsets | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave the connection behind when Spark sends the reader to its workers."""
        return {**self.__dict__, "_broker": None}

    def initialOffset(self) -> Json:
        """Return where a query without checkpoint starts."""
        broker, options = self._open(), self._options
        return to_json(resolved(broker, options.start, options.places(broker), "startingOffsets"))

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return how much one batch may take: maxOffsetsPerTrigger, if it is set."""
        rows = self._options.rows_per_trigger
        return ReadMaxRows(rows) if rows else ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> Json:
        """Return how far the next batch goes."""
        begin = from_json(start)
        latest = self._latest() if self._end is None else self._end
        # A partition that came later starts at its beginning, one that is gone stays where it is.
        fresh = latest.keys() - begin.keys()
        if fresh:
            begin |= self._open().offsets(dict.fromkeys(sorted(fresh), EARLIEST))
        end = begin | latest
        if isinstance(limit, ReadMaxRows):
            end = limited(begin, end, limit.max_rows)
        return to_json({place: max(offset, begin[place]) for place, offset in end.items()})

    def reportLatestOffset(self) -> Json:
        """Return the end of the log, which tells Spark's metrics how far the query is behind."""
        return to_json(self._latest())

    def prepareForTriggerAvailableNow(self) -> None:
        """Remember the end of the log now: the query stops there, whatever comes meanwhile."""
        self._end = self._latest()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Cut what one batch reads into tasks."""
        begin, stop = from_json(start), from_json(end)
        fresh = sorted(stop.keys() - begin.keys())
        first = self._open().offsets(dict.fromkeys(fresh, EARLIEST))
        ranges = ranges_between(begin, stop, first)
        parts = split(ranges, self._options.tasks_min, self._options.rows_per_task)
        return [RangePartition(part) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield Arrow batches; runs in a Python worker."""
        assert isinstance(partition, RangePartition)
        return read_range(self._options, self._names, partition.part)

    def commit(self, end: dict[str, Any]) -> None:
        """Publish the query's progress as a group's offsets, if a group is named."""
        if self._options.group:
            self._open().commit(self._options.group, from_json(end))

    def stop(self) -> None:
        """Close the driver's connections."""
        if self._broker is not None:
            self._broker.close()
            self._broker = None

    def _latest(self) -> Offsets:
        broker = self._open()
        return broker.offsets(dict.fromkeys(self._options.places(broker), LATEST))

    def _open(self) -> Bulk:
        if self._broker is None:
            self._broker = Bulk(self._options.bulk()).__enter__()
        return self._broker


def resolved(broker: Bulk, bound: Bound, places: list[Place], name: str) -> Offsets:
    """Return offsets for every partition, whatever way the option says them."""
    match bound:
        case "earliest":
            return broker.offsets(dict.fromkeys(places, EARLIEST))
        case "latest":
            return broker.offsets(dict.fromkeys(places, LATEST))
        case int():
            return broker.offsets(dict.fromkeys(places, bound))
    assert isinstance(bound, dict)
    if bound.keys() != set(places):
        missing, unknown = set(places) - bound.keys(), bound.keys() - set(places)
        raise BadOption(
            f"{name} has to name every partition, and no other; missing: {sorted(missing)}, "
            f"unknown: {sorted(unknown)}"
        )
    ends = {place: offset for place, offset in bound.items() if offset < 0}
    return bound | broker.offsets(ends)


def read_range(options: Options, names: list[str], part: OffsetRange) -> Iterator[pa.RecordBatch]:
    """Fetch a range and yield its records as Arrow batches."""
    wanted = [name for name in names if name not in PLACES]
    with Bulk(options.bulk()) as broker:
        for data, visible in broker.fetch(part):
            columns = read_columns(data, visible.batches, wanted, start=part.start, stop=part.stop)
            arrays = columns.arrays | _places(names, part, columns.count)
            schema = pa.schema([(name, TYPES.get(name) or PLACES[name]) for name in names])
            whole = pa.RecordBatch.from_arrays([arrays[name] for name in names], schema=schema)
            for begin in range(0, columns.count, ROWS_PER_BATCH_MAX):
                yield whole.slice(begin, ROWS_PER_BATCH_MAX)


def _places(names: list[str], part: OffsetRange, count: int) -> dict[str, pa.Array]:
    values: dict[str, Any] = {"topic": part.topic, "partition": part.partition}
    return {
        name: pa.repeat(pa.scalar(values[name], kind), count)
        for name, kind in PLACES.items()
        if name in names
    }
