"""Writes frames to topics: every row once per attempt, and once in all for a stream with a name."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from chordmq.client.producer import Producer, ProducerSettings
from chordmq.clock import SystemClock
from chordmq.records.compression import Compression
from chordmq.records.record import NewRecord
from pyspark_chordmq.options import BadOption, Options
from pyspark_chordmq.wire import Wire


@dataclass
class Written(WriterCommitMessage):
    """How many rows a task has delivered."""

    rows: int


class BatchWriter(DataSourceArrowWriter):
    """Appends a table to topics; a task that Spark repeats writes its rows again."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Deliver the rows of one task; runs in a Python worker."""
        return Written(deliver(self._options, iterator))


class StreamWriter(DataSourceStreamArrowWriter):
    """Appends a stream to topics."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Deliver the rows of one task of a micro-batch; runs in a Python worker."""
        return Written(deliver(self._options, iterator))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing: what the tasks have delivered is in the log."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing: Spark repeats the micro-batch."""


def deliver(options: Options, batches: Iterator[pa.RecordBatch]) -> int:
    """Send all rows and wait until the log has them."""
    settings = ProducerSettings(compression=compression(options.compression))
    with Wire(options) as wire:

        async def send() -> int:
            count = 0
            async with Producer(options.bootstrap, settings, options.connection) as producer:
                for batch in batches:
                    for topic, partition, records in grouped(batch, options.topic):
                        await producer.enqueue_all(topic, records, partition)
                        count += len(records)
            return count

        return wire.run(send())


Group = tuple[str, int | None, list[NewRecord]]


def grouped(batch: pa.RecordBatch, topic: str) -> list[Group]:
    """Return the rows of an Arrow batch as records, by topic and partition, in their order."""
    count = batch.num_rows
    names = set(batch.schema.names)
    now_ms = SystemClock().now_ms()

    def column(name: str) -> list[Any]:
        if name not in names:
            return [None] * count
        array = batch.column(name)
        if pa.types.is_string(array.type) and name in ("key", "value"):
            array = array.cast(pa.binary())
        elif name == "timestamp":
            array = pc.cast(array.cast(pa.timestamp("ms", tz="UTC"), safe=False), pa.int64())
        return list(array.to_pylist())

    found: dict[tuple[str, int | None], list[NewRecord]] = {}
    columns = ("topic", "partition", "timestamp", "key", "value", "headers")
    for place, partition, time, key, value, headers in zip(*map(column, columns), strict=True):
        name = place or topic
        if not name:
            raise BadOption("a row names no topic; fill the column, or set the option topic")
        record = NewRecord(now_ms if time is None else time, key, value, _headers(headers))
        found.setdefault((name, partition), []).append(record)
    return [(name, partition, records) for (name, partition), records in found.items()]


def _headers(pairs: list[dict[str, Any]] | None) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((pair["key"], pair["value"]) for pair in pairs or ())


def compression(name: str) -> Compression:
    """Return a compression by its name in Kafka's settings."""
    try:
        return Compression[name.upper()]
    except KeyError:
        known = ", ".join(one.name.lower() for one in Compression)
        raise BadOption(f"compression is one of {known}, not {name!r}") from None
