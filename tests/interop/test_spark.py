"""Spark's own Kafka connector, unmodified, reads and writes a node; our source reads the same."""

from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from tests.interop.conftest import CreateTopic
from tests.spark_session import session as session
from tests.spark_session import spark as spark

ROWS = 1_000


def filled(bootstrap: str, topic: str) -> str:
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": "lz4"})
    for i in range(ROWS):
        producer.produce(topic, f"{i}", key=f"device-{i % 7}", headers={"n": str(i)})
    assert producer.flush(60) == 0
    return topic


def at(bootstrap: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": bootstrap}


def rows_of(frame: DataFrame) -> list[tuple[object, ...]]:
    chosen = frame.selectExpr(
        "string(key)", "string(value)", "topic", "partition", "offset", "timestamp",
        "timestampType", "transform(headers, h -> concat(h.key, '=', string(h.value)))",
    )  # fmt: skip
    return sorted(tuple(str(cell) for cell in row) for row in chosen.collect())


def test_the_connector_reads_a_table_as_our_source_does(
    spark: SparkSession, bootstrap: str, create_topic: CreateTopic
) -> None:
    """P2: every column of every record, by Spark's connector and by format("chordmq")."""
    topic = filled(bootstrap, create_topic(partitions=3))
    told = at(bootstrap) | {"subscribe": topic, "includeHeaders": "true", "minPartitions": "6"}
    theirs, ours = (
        rows_of(spark.read.format(kind).options(**told).load()) for kind in ("kafka", "chordmq")
    )
    assert len(theirs) == ROWS
    assert ours == theirs


def test_the_connector_streams_from_one_topic_into_another(
    spark: SparkSession, bootstrap: str, create_topic: CreateTopic, tmp_path: Path
) -> None:
    """P2: limited batches, a checkpoint that a second run goes on from, and an idempotent sink."""
    source, sink = filled(bootstrap, create_topic(partitions=2)), create_topic(suffix="-out")
    told = at(bootstrap) | {"subscribe": source, "startingOffsets": "earliest"}

    def run() -> None:
        reader = spark.readStream.format("kafka").options(**told)
        frame = reader.option("maxOffsetsPerTrigger", "300").load().select("key", "value")
        writer = frame.writeStream.format("kafka").options(**at(bootstrap)).option("topic", sink)
        writer = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
        writer.start().awaitTermination()

    run()
    filled(bootstrap, source)
    run()
    found = spark.read.format("kafka").options(**at(bootstrap), subscribe=sink).load()
    values = sorted(int(row.value) for row in found.collect())
    assert values == sorted([*range(ROWS), *range(ROWS)])
    assert len(list((tmp_path / "commits").glob("[0-9]*"))) >= 8
