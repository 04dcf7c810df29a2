"""The data source on a real Apache Kafka: the same options, the same rows, the same promises."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from benchmarks.peers import start_kafka
from chordmq.client.admin import Admin
from chordmq.client.bulk import Bulk, OffsetRange
from chordmq.client.producer import Producer
from chordmq.client.segments import logs_in_sight
from chordmq.clock import SystemClock
from chordmq.records.record import NewRecord
from pyspark_chordmq import parts
from pyspark_chordmq.options import Options
from pyspark_chordmq.tasks import Part, Task

pytestmark = [pytest.mark.slow, pytest.mark.interop]
ROWS = 500


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Give the address of an Apache Kafka."""
    peer = start_kafka(tmp_path_factory.mktemp("kafka"))
    yield peer.bootstrap
    peer.kill()


def test_a_stream_of_kafka_is_copied_once_and_read_as_a_table(
    spark: SparkSession, kafka: str, name: str, tmp_path: Path
) -> None:
    """P2, P6: batches, offsets, transactions and groups are those of any broker of the protocol."""
    now_ms = SystemClock().now_ms()
    records = [NewRecord(now_ms, b"k%d" % (i % 7), b"%d" % i) for i in range(ROWS)]

    async def fill() -> None:
        async with Admin(kafka) as admin:
            await admin.create_topic(name, 3, 1)
            await admin.create_topic(f"{name}-out", 1, 1)
        async with Producer(kafka) as producer:
            await producer.enqueue_all(name, records)

    asyncio.run(fill())
    at = {"kafka.bootstrap.servers": kafka}

    def copy() -> None:
        reader = spark.readStream.format("chordmq").options(**at, subscribe=name)
        reader = reader.options(startingOffsets="earliest", maxOffsetsPerTrigger="200")
        frame = reader.option("group", f"{name}-lag").load().select("key", "value")
        writer = frame.writeStream.format("chordmq").options(**at, topic=f"{name}-out")
        writer = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
        writer.start().awaitTermination()

    copy()
    max((tmp_path / "commits").glob("[0-9]*"), key=lambda path: int(path.name)).unlink()
    copy()
    found = spark.read.format("chordmq").options(**at, subscribe=f"{name}-out").load()
    assert sorted(int(row.value) for row in found.collect()) == list(range(ROWS))


def test_the_files_of_a_kafka_on_the_same_machine_are_read(
    kafka: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P2: its segments and indexes have the same form, and DescribeLogDirs says where they are."""
    monkeypatch.setattr(parts, "ROWS_FROM_FILES_MIN", 1)
    records = [NewRecord(1, None, b"%d" % i) for i in range(ROWS)]

    async def fill() -> None:
        async with Admin(kafka) as admin:
            await admin.create_topic(name, 1, 1)
        async with Producer(kafka) as producer:
            for record in records:
                await producer.send(name, record.value, key=record.key)

    asyncio.run(fill())
    options = Options(bootstrap=kafka)
    part = OffsetRange(name, 0, ROWS // 3, ROWS - 1)
    with Bulk(options.bulk()) as broker:
        assert logs_in_sight(broker, part) is not None
    monkeypatch.setattr(Bulk, "fetch", lambda *_: pytest.fail("the broker was asked"))
    rows = parts.read_task(options, ["value"], Task(Part(part)))
    found = [value for batch in rows for value in batch.column("value").to_pylist()]
    assert found == [record.value for record in records[part.start : part.stop]]
