"""Reads topics for Spark: plans ranges of offsets on the driver, decodes to Arrow in workers."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceStreamReader,
    Filter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from chordmq.client.bulk import Bulk
from pyspark_chordmq.filters import Narrowed, narrowed
from pyspark_chordmq.options import EARLIEST, LATEST, BadOption, Bound, Options
from pyspark_chordmq.ranges import (
    Json,
    Offsets,
    Place,
    from_json,
    limited,
    ranges_between,
    to_json,
)
from pyspark_chordmq.tasks import Task, planned


class BatchReader(DataSourceReader):
    """A topic between two offsets as a table."""

    def __init__(self, options: Options, names: list[str]) -> None:
        self._options = options
        self._names = names
        self._narrowed = Narrowed()

    def partitions(self) -> Sequence[InputPartition]:
        """Look up where the table starts and stops, and cut it into tasks."""
        options = self._options
        with Bulk(options.bulk()) as broker:
            places = options.places(broker)
            first = broker.offsets(dict.fromkeys(places, EARLIEST))
            start = resolved(broker, options, options.start, places, "startingOffsets")
            stop = resolved(broker, options, options.stop, places, "endingOffsets")
            since = self._since(broker, places)
        if not options.fail_on_data_loss and not options.archive:
            start = {place: max(offset, first[place]) for place, offset in start.items()}
        ranges = [
            self._narrowed.cut(one, since)
            for one in ranges_between(start, stop, first)
            if self._narrowed.has((one.topic, one.partition))
        ]
        return planned(options, [one for one in ranges if one.size], first)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield Arrow batches; runs in a Python worker."""
        return read(self._options, self._names, partition)

    def _since(self, broker: Bulk, places: list[Place]) -> Offsets:
        """Return the first offsets that can be new enough for the query's filters."""
        if self._narrowed.since_ms is None:
            return {}
        wanted = {place: self._narrowed.since_ms for place in places if self._narrowed.has(place)}
        return looked_up(broker, self._options, wanted)


class FilteringReader(BatchReader):
    """Reads only the partitions and offsets that a query's filters can let pass."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Narrow what is read; Spark still applies all filters to the rows."""
        self._narrowed = narrowed(filters)
        return filters


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
        places = options.places(broker)
        return to_json(resolved(broker, options, options.start, places, "startingOffsets"))

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
            begin |= self._first(fresh)
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
        begin |= self._first(stop.keys() - begin.keys())
        # Where the log begins matters only to who can also read what it has dropped.
        edges = self._open().offsets(dict.fromkeys(stop, EARLIEST)) if self._options.archive else {}
        return planned(self._options, ranges_between(begin, stop, begin), edges)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield Arrow batches; runs in a Python worker."""
        return read(self._options, self._names, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Publish the query's progress as a group's offsets, if a group is named."""
        if self._options.group:
            self._open().commit(self._options.group, from_json(end))

    def stop(self) -> None:
        """Close the driver's connections."""
        if self._broker is not None:
            self._broker.close()
            self._broker = None

    def _first(self, places: Collection[Place]) -> Offsets:
        times = dict.fromkeys(sorted(places), EARLIEST)
        return looked_up(self._open(), self._options, times) if times else {}

    def _latest(self) -> Offsets:
        broker = self._open()
        return broker.offsets(dict.fromkeys(self._options.places(broker), LATEST))

    def _open(self) -> Bulk:
        if self._broker is None:
            self._broker = Bulk(self._options.bulk()).__enter__()
        return self._broker


def read(options: Options, names: list[str], partition: InputPartition) -> Iterator[Any]:
    """Yield Arrow batches of what a task has to read."""
    # Only workers need NumPy and Arrow; each query starts processes that do nothing but plan.
    from pyspark_chordmq.parts import read_task

    assert isinstance(partition, Task)
    return read_task(options, names, partition)


def resolved(
    broker: Bulk, options: Options, bound: Bound, places: list[Place], name: str
) -> Offsets:
    """Return offsets for every partition, whatever way the option says them."""
    match bound:
        case "earliest":
            return looked_up(broker, options, dict.fromkeys(places, EARLIEST))
        case "latest":
            return looked_up(broker, options, dict.fromkeys(places, LATEST))
        case int():
            return looked_up(broker, options, dict.fromkeys(places, bound))
    assert isinstance(bound, dict)
    if bound.keys() != set(places):
        missing, unknown = set(places) - bound.keys(), bound.keys() - set(places)
        raise BadOption(
            f"{name} has to name every partition, and no other; missing: {sorted(missing)}, "
            f"unknown: {sorted(unknown)}"
        )
    ends = {place: offset for place, offset in bound.items() if offset < 0}
    return bound | looked_up(broker, options, ends)


def looked_up(broker: Bulk, options: Options, times: dict[Place, int]) -> Offsets:
    """Return the first offsets at or after some times, in the archive if the log has it not."""
    found = broker.offsets(times)
    if not options.archive or set(times.values()) <= {LATEST}:
        return found
    from pyspark_chordmq.tier import Tier

    return Tier(Path(options.archive), sorted({topic for topic, _ in times})).lowered(times, found)
