"""Spark reads and writes a real node by format("chordmq"), found by the package's name alone."""

import asyncio
import json
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from chordmq.client.admin import Admin
from chordmq.client.cluster import Cluster
from chordmq.client.producer import Producer
from chordmq.client.transaction import Transaction
from chordmq.clock import SystemClock
from chordmq.iot.envelope import Origin, wrap
from chordmq.records.record import NewRecord
from tests.running_node import RunningNode

NOW_MS = SystemClock().now_ms() - 100_000
"""Recent enough not to fall to retention."""


def fill(node: RunningNode, topic: str, records: list[NewRecord], partitions: int = 2) -> None:
    async def produce() -> None:
        async with Admin(node.bootstrap) as admin:
            await admin.create_topic(topic, partitions)
        async with Producer(node.bootstrap) as producer:
            await producer.enqueue_all(topic, records)

    asyncio.run(produce())


def fill_more(node: RunningNode, topic: str, records: list[NewRecord]) -> None:
    async def produce() -> None:
        async with Producer(node.bootstrap) as producer:
            await producer.enqueue_all(topic, records)

    asyncio.run(produce())


def readings(count: int, start: int = 0) -> list[NewRecord]:
    return [
        NewRecord(NOW_MS + i, b"device-%d" % (i % 7), b"%d" % i, (("n", b"%d" % i),))
        for i in range(start, start + count)
    ]


def table(spark: SparkSession, node: RunningNode, topic: str, **options: object) -> DataFrame:
    reader = spark.read.format("chordmq").option("kafka.bootstrap.servers", node.bootstrap)
    return reader.options(subscribe=topic, **{k: str(v) for k, v in options.items()}).load()


def run_once(frame: DataFrame, node: RunningNode, topic: str, checkpoint: Path) -> None:
    """Write a stream to a topic until everything that is there now has been read."""
    writer = frame.writeStream.format("chordmq").option("kafka.bootstrap.servers", node.bootstrap)
    writer = writer.option("topic", topic).option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()


def stream(spark: SparkSession, node: RunningNode, topic: str, **options: object) -> DataFrame:
    reader = spark.readStream.format("chordmq").option("kafka.bootstrap.servers", node.bootstrap)
    chosen = {"startingOffsets": "earliest"} | {k: str(v) for k, v in options.items()}
    return reader.options(subscribe=topic, **chosen).load()


def test_a_topic_is_a_table_with_every_field_of_its_records(
    spark: SparkSession, node: RunningNode, name: str
) -> None:
    """P2: key, value, place, time and headers arrive as they were produced."""
    fill(node, name, readings(100))
    rows = table(spark, node, name, includeHeaders="true", minPartitions=5).collect()
    assert sorted((bytes(row.key), bytes(row.value)) for row in rows) == sorted(
        (record.key, record.value) for record in readings(100)
    )
    row = next(row for row in rows if bytes(row.value) == b"42")
    assert (row.topic, row.timestampType) == (name, 0)
    assert round(row.timestamp.timestamp() * 1000) == NOW_MS + 42
    assert [(one.key, bytes(one.value)) for one in row.headers] == [("n", b"42")]
    assert len({(row.partition, row.offset) for row in rows}) == 100


def test_a_schema_of_the_user_chooses_columns(
    spark: SparkSession, node: RunningNode, name: str
) -> None:
    fill(node, name, readings(10))
    reader = spark.read.format("chordmq").schema("value binary, offset long")
    frame = reader.options(**{"bootstrap.servers": node.bootstrap, "subscribe": name}).load()
    assert frame.columns == ["value", "offset"]
    assert frame.count() == 10


def test_envelopes_are_typed_columns_and_what_is_not_asked_for_is_not_there(
    spark: SparkSession, node: RunningNode, name: str
) -> None:
    """P2, E1: fields of the envelope by name; a message without one has null."""
    origin = Origin(message_id="m-7", now_ms=NOW_MS, topic="a/b/c", source="d7")
    fill(node, name, [NewRecord(NOW_MS, b"k", wrap(b'{"value": 5}', origin), ())])
    fill_more(node, name, [NewRecord(NOW_MS, b"k", b"bare")])
    frame = table(spark, node, name, columns="offset,envelope")
    assert frame.columns == ["offset", "envelope"]
    fields = frame.orderBy("offset").select("envelope.messageId", "envelope.payload").collect()
    assert [tuple(row) for row in fields] == [("m-7", '{"value": 5}'), (None, None)]
    assert "envelope" in table(spark, node, name, includeEnvelope="true").columns


def test_filters_on_place_and_time_narrow_what_is_read(
    spark: SparkSession, node: RunningNode, name: str
) -> None:
    """P2: the answer is the same with and without push-down; the tasks are fewer."""
    fill(node, name, readings(100), partitions=4)
    wanted = (
        f"partition IN (1, 2) AND offset >= 3 AND topic = '{name}' "
        f"AND timestamp > timestamp_millis({NOW_MS + 20})"
    )
    plain = table(spark, node, name).where(wanted)
    pushed = table(spark, node, name, pushFilters="true").where(wanted)
    rows = sorted((row.partition, row.offset) for row in pushed.collect())
    assert rows == sorted((row.partition, row.offset) for row in plain.collect())
    assert rows
    assert pushed.rdd.getNumPartitions() < plain.rdd.getNumPartitions()


def test_a_range_of_offsets_or_of_time_is_read_and_nothing_else(
    spark: SparkSession, node: RunningNode, name: str
) -> None:
    fill(node, name, readings(50), partitions=1)
    begin, end = json.dumps({name: {"0": 10}}), json.dumps({name: {"0": 12}})
    by_offset = table(spark, node, name, startingOffsets=begin, endingOffsets=end)
    assert [row.offset for row in by_offset.collect()] == [10, 11]
    by_time = table(spark, node, name, startingTimestamp=NOW_MS + 48)
    assert [row.offset for row in by_time.collect()] == [48, 49]


def test_a_stream_goes_on_where_its_checkpoint_is(
    spark: SparkSession, node: RunningNode, name: str, tmp_path: Path
) -> None:
    """P2, P6: two runs of a query read everything once, in limited batches; its lag is known."""
    source, sink = name, f"{name}-out"
    fill(node, source, readings(100))
    query = {"maxOffsetsPerTrigger": 30, "group": f"{name}-lag"}
    run_once(stream(spark, node, source, **query).select("key", "value"), node, sink, tmp_path)
    fill_more(node, source, readings(20, start=100))
    run_once(stream(spark, node, source, **query).select("key", "value"), node, sink, tmp_path)
    values = [int(row.value) for row in table(spark, node, sink).collect()]
    assert sorted(values) == list(range(120))

    async def lag() -> int:
        async with Admin(node.bootstrap) as admin:
            return sum(row.lag for row in await admin.lag(f"{name}-lag"))

    assert asyncio.run(lag()) <= 30, "the progress of the last batch is told with the next"


def test_records_of_open_and_aborted_transactions_are_not_read(
    spark: SparkSession, node: RunningNode, name: str
) -> None:
    """C3, P6: a source shows what is committed, unless asked for more."""

    async def produce() -> None:
        cluster = Cluster(node.bootstrap)
        await cluster.open()
        aborted = await Transaction(cluster, name).__aenter__()
        await aborted.append(name, readings(5))
        await aborted.end(committed=False)
        async with Transaction(cluster, name) as kept:
            await kept.append(name, readings(5, start=5))
        left = await Transaction(cluster, name).__aenter__()
        await left.append(name, readings(5, start=10))
        cluster.close()

    asyncio.run(produce())
    assert sorted(int(r.value) for r in table(spark, node, name).collect()) == [5, 6, 7, 8, 9]
    everything = table(spark, node, name, **{"kafka.isolation.level": "read_uncommitted"})
    assert everything.count() == 15


def test_a_micro_batch_that_is_repeated_writes_nothing_twice(
    spark: SparkSession, node: RunningNode, name: str, tmp_path: Path
) -> None:
    """P6: a driver that died after its tasks were done, before it noted that they were."""
    sink = f"{name}-out"
    fill(node, name, readings(40))
    frame = stream(spark, node, name, maxOffsetsPerTrigger=20).select("key", "value")
    run_once(frame, node, sink, tmp_path)
    newest = max((tmp_path / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    newest.unlink()
    run_once(frame, node, sink, tmp_path)
    assert sorted(int(row.value) for row in table(spark, node, sink).collect()) == list(range(40))


def test_two_queries_that_write_tables_of_one_name_do_not_take_each_other_for_a_repetition(
    spark: SparkSession, node: RunningNode, name: str, tmp_path: Path
) -> None:
    """P6: what foreachBatch writes is counted by the query's checkpoint and not by a name alone."""
    fill(node, name, readings(10))

    def write(batch: DataFrame, number: int) -> None:
        sink = batch.select("key", "value").write.format("chordmq").mode("append")
        sink = sink.options(**{"kafka.bootstrap.servers": node.bootstrap, "topic": f"{name}-out"})
        sink.options(query="copy", batchId=str(number)).save()

    for checkpoint in ("one", "two"):
        writer = stream(spark, node, name).writeStream.foreachBatch(write)
        writer = writer.option("checkpointLocation", str(tmp_path / checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination()
    values = [int(row.value) for row in table(spark, node, f"{name}-out").collect()]
    assert sorted(values) == sorted([*range(10), *range(10)])


def test_rows_say_their_topic_partition_time_and_headers(
    spark: SparkSession, node: RunningNode, name: str
) -> None:
    fill(node, name, [NewRecord(NOW_MS, None, b"first")], partitions=3)
    frame = spark.range(3).select(
        F.lit(name).alias("topic"),
        F.col("id").cast("int").alias("partition"),
        F.concat(F.lit("v"), F.col("id")).alias("value"),
        F.timestamp_millis(F.lit(NOW_MS)).alias("timestamp"),
        F.array(
            F.struct(F.lit("unit").alias("key"), F.lit(b"C").cast("binary").alias("value"))
        ).alias("headers"),
    )
    sink = frame.write.format("chordmq").mode("append")
    sink.option("kafka.bootstrap.servers", node.bootstrap).option("compression", "zstd").save()
    rows = table(spark, node, name, includeHeaders="true").where("value != 'first'").collect()
    assert sorted((row.partition, bytes(row.value)) for row in rows) == [
        (0, b"v0"),
        (1, b"v1"),
        (2, b"v2"),
    ]
    assert {round(row.timestamp.timestamp() * 1000) for row in rows} == {NOW_MS}
    assert {bytes(row.headers[0].value) for row in rows} == {b"C"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "say what to read"),
        ({"subscribe": "no-such-topic-anywhere"}, "UNKNOWN_TOPIC"),
        ({"subscribe": "x", "startingOffsets": "soon"}, "startingOffsets wants"),
    ],
)
def test_a_source_that_cannot_be_read_says_why(
    spark: SparkSession, node: RunningNode, options: dict[str, str], said: str
) -> None:
    reader = spark.read.format("chordmq").option("kafka.bootstrap.servers", node.bootstrap)
    with pytest.raises(PySparkException, match=said):
        reader.options(**options).load().count()


def test_records_that_are_gone_stop_a_query_unless_it_may_go_on(
    spark: SparkSession, node: RunningNode, name: str
) -> None:
    fill(node, name, readings(10), partitions=1)
    begin = json.dumps({name: {"0": 5_000}})
    end = json.dumps({name: {"0": 6_000}})
    with pytest.raises(PySparkException, match="no longer in the log"):
        table(spark, node, name, startingOffsets=begin, endingOffsets=end).count()
    lenient = {"failOnDataLoss": "false", "startingOffsets": begin, "endingOffsets": end}
    assert table(spark, node, name, **lenient).count() == 0
