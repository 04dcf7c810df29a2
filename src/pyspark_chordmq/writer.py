"""Writes frames to topics: a table's rows at least once, a stream's rows exactly once.

Each task of a micro-batch writes in one transaction, which also commits the number of the batch as
an offset of a group that belongs to the query and the task. A task that Spark repeats, because the
driver or a worker died, finds the number of its batch there and writes nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from chordmq.client.bulk import PATIENCE_S, Bulk
from chordmq.client.cluster import Cluster
from chordmq.client.codes import RETRIABLE
from chordmq.client.offsets import TopicPartition, fetch_committed
from chordmq.client.producer import Producer, ProducerSettings
from chordmq.client.transaction import Transaction
from chordmq.clock import SystemClock
from chordmq.records.compression import Compression
from chordmq.records.record import NewRecord
from pyspark_chordmq.options import BadOption, Options

QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"
"""What Spark tells the tasks of a micro-batch about it."""
TRANSACTION_TIMEOUT_MS = 120_000

Group = tuple[str, int | None, list[NewRecord]]


@dataclass
class Written(WriterCommitMessage):
    """How many rows a task has delivered; a repeated task none."""

    rows: int


class BatchWriter(DataSourceArrowWriter):
    """Appends a table to topics; a task that Spark repeats writes its rows again.

    With the options `query` and `batchId`, as a stream's foreachBatch knows them, it writes once.
    """

    def __init__(self, options: Options) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Deliver the rows of one task; runs in a Python worker."""
        if self._options.batch is not None:
            return _once(self._options, self._options.batch, iterator)
        return self._deliver(iterator)

    def _deliver(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        options = self._options
        settings = ProducerSettings(compression=compression(options.compression))

        async def send() -> int:
            count = 0
            async with Producer(options.bootstrap, settings, options.connection) as producer:
                for batch in iterator:
                    for topic, partition, records in grouped(batch, options.topic):
                        await producer.enqueue_all(topic, records, partition)
                        count += len(records)
            return count

        with Bulk(options.bulk()) as broker:
            return Written(broker.run(send()))


class StreamWriter(DataSourceStreamArrowWriter):
    """Appends a stream to topics, each row once whatever dies meanwhile."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Deliver the rows of one task of a micro-batch; runs in a Python worker."""
        context = TaskContext.get()
        assert context is not None, "runs in a task of Spark"
        batch = int(context.getLocalProperty(BATCH_ID) or 0)
        return _once(self._options, batch, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing: what the tasks have committed is in the log."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing: Spark repeats the micro-batch, and its tasks know how far they are."""


def _once(options: Options, batch: int, frames: Iterator[pa.RecordBatch]) -> Written:
    context = TaskContext.get()
    assert context is not None, "runs in a task of Spark"
    # Spark's id belongs to the checkpoint: another query of the same name counts its own batches.
    parts = ("spark", context.getLocalProperty(QUERY_ID), options.query, context.partitionId())
    name = "-".join(str(part) for part in parts if part not in (None, ""))
    filled = (frame for frame in frames if frame.num_rows)
    first = next(filled, None)
    if (
        first is None
    ):  # most batches have neither alerts nor rejects: that is not worth a connection
        return Written(0)
    frames = chain([first], filled)
    with Bulk(options.bulk()) as broker:
        return Written(broker.run(_write_once(broker.cluster, options, name, batch, frames)))


async def _write_once(
    cluster: Cluster, options: Options, name: str, batch: int, frames: Iterator[pa.RecordBatch]
) -> int:
    """Write the rows and the number of their batch in one transaction, unless it is there."""
    squeezed = compression(options.compression)
    rows = 0
    # Opening it first ends what a dead task has left open, so that its number is settled.
    async with Transaction(
        cluster, name, compression=squeezed, timeout_ms=TRANSACTION_TIMEOUT_MS
    ) as transaction:
        if await _done(cluster, name) > batch:
            return 0
        place = ""
        for frame in frames:
            for topic, partition, records in grouped(frame, options.topic):
                await transaction.append(topic, records, partition)
                rows += len(records)
                place = topic
        await transaction.commit_offsets(name, {(place, 0): batch + 1}, f"micro-batch {batch}")
    return rows


async def _done(cluster: Cluster, group: str) -> int:
    """Return the number of the next batch to write; 0 for a new query."""

    async def ask() -> dict[TopicPartition, int]:
        return await fetch_committed(await cluster.coordinator(group), group)

    # A broker that has just come up may not have its groups yet.
    committed = await cluster.retrying(ask, RETRIABLE, PATIENCE_S)
    return max(committed.values(), default=0)


def grouped(batch: pa.RecordBatch, topic: str) -> list[Group]:
    """Return the rows of an Arrow batch as records, by topic and partition, in their order."""
    now_ms = SystemClock().now_ms()
    found: dict[tuple[str, int | None], list[NewRecord]] = {}
    columns = ("topic", "partition", "timestamp", "key", "value", "headers")
    rows = zip(*(_values(batch, name) for name in columns), strict=True)
    for place, partition, time, key, value, headers in rows:
        name = place or topic
        if not name:
            raise BadOption("a row names no topic; fill the column, or set the option topic")
        record = NewRecord(now_ms if time is None else time, key, value, _headers(headers))
        found.setdefault((name, partition), []).append(record)
    return [(name, partition, records) for (name, partition), records in found.items()]


def _values(batch: pa.RecordBatch, name: str) -> list[Any]:
    if name not in batch.schema.names:
        return [None] * batch.num_rows
    array = batch.column(name)
    if name in ("key", "value") and not pa.types.is_binary(array.type):
        array = array.cast(pa.binary())
    elif name == "timestamp":
        array = pc.cast(array.cast(pa.timestamp("ms", tz="UTC"), safe=False), pa.int64())
    return list(array.to_pylist())


def _headers(pairs: list[dict[str, Any]] | None) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((pair["key"], pair["value"]) for pair in pairs or ())


def compression(name: str) -> Compression:
    """Return a compression by its name in Kafka's settings."""
    try:
        return Compression[name.upper()]
    except KeyError:
        known = ", ".join(one.name.lower() for one in Compression)
        raise BadOption(f"compression is one of {known}, not {name!r}") from None
