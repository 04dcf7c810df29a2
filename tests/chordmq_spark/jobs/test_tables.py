"""The tables job on a real node and Spark: readings and hours in Iceberg tables, each once."""

import asyncio
import json
import shutil
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from threading import Event

import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession

from chordmq.archive.table import table_name
from chordmq.archive.typed import TypedTables
from chordmq.client.producer import Producer
from chordmq.clock import SystemClock
from chordmq_spark.jobs import tables
from chordmq_spark.pipeline import Pipeline, queries_of
from chordmq_spark.settings import PipelineSettings
from chordmq_spark.sql import register_typed
from chordmq_spark.transforms.tables import PART
from tests.archive.test_typed import a_file
from tests.running_node import RunningNode
from tests.waiting import wait_until


def publish(node: RunningNode, root: str, numbers: range) -> None:
    """Publish a reading each minute from two devices; some twice, and some that are none."""

    async def send() -> None:
        async with Producer(node.bootstrap) as producer:
            for number in numbers:
                device = f"d{number % 2}"
                time = f"2026-11-01T{number // 60:02}:{number % 60:02}:00Z"
                said = {"messageId": f"m{number}", "timestamp": time}
                message = {"metadata": said, "payload": {"value": number % 60, "unit": "C"}}
                value = b"broken" if number % 30 == 29 else json.dumps(message).encode()
                name = f"{root}/devices/{device}/telemetry/temperature"
                for _ in range(2 if number % 10 == 0 else 1):
                    await producer.enqueue(
                        f"{root}.devices", value, key=device.encode(),
                        headers=(("chordmq.topic", name.encode()),),
                    )  # fmt: skip

    asyncio.run(send())


def run(spark: SparkSession, settings: PipelineSettings) -> None:
    Pipeline(spark, settings, queries_of([tables.NAME])).run()


def ids(paths: list[str]) -> list[str]:
    """Return the message ids in the files of a table, each as often as it is there."""
    return sorted(row for path in paths for row in pq.read_table(path)["messageId"].to_pylist())


def test_readers_see_each_reading_once_while_many_small_files_are_joined(
    spark: SparkSession, tmp_path: Path
) -> None:
    """P5: the files of a day are joined when there are more than 32, those of another stay."""
    done = Event()
    readings: list[list[str]] = []

    def read() -> None:
        while not done.is_set():
            with TypedTables(tmp_path) as own:
                readings.append(ids(own.readings("plant").paths()))

    days = {"2026-11-01": tables.SMALL_FILES_MAX + 8, "2026-11-02": tables.SMALL_FILES_MAX}
    with TypedTables(tmp_path) as found, ThreadPoolExecutor(1) as beside:
        silver = found.readings("plant")
        for number, (day, count) in enumerate(days.items()):
            time = datetime.fromisoformat(f"{day}T12:00:00Z")
            offsets = range(number * 1_000, number * 1_000 + count)
            files = [a_file(silver, offset, time, f"{PART}={day}") for offset in offsets]
            silver.add(files, {0: offsets.stop})
        old = silver.paths()
        reader = beside.submit(read)
        try:
            wait_until(lambda: bool(readings) or reader.done())
            tables.join_small(spark, silver)
            seen = len(readings)
            # One may have begun before; the one after it sees what is left.
            wait_until(lambda: len(readings) >= seen + 2 or reader.done())
        finally:
            done.set()
        reader.result(60)
        left = Counter(Path(path).parent.name for path in silver.paths())
        assert left == {f"{PART}=2026-11-01": 1, f"{PART}=2026-11-02": tables.SMALL_FILES_MAX}
        assert silver.sweep(SystemClock().now_ms() / 1000) == 0
        assert all(reading == ids(old) for reading in readings)


@pytest.mark.slow
def test_each_reading_is_a_row_and_each_hour_is_summed_up_whatever_is_repeated(
    spark: SparkSession, node: RunningNode, name: str, tmp_path: Path
) -> None:
    """P5, P6: typed silver and gold tables by Spark, exactly once.

    The second run repeats the last batch of the first, the third has lost its checkpoint; the
    hour that both runs have readings of is summed up whole.
    """
    settings = PipelineSettings(
        bootstrap=node.bootstrap, directory=tmp_path, root=name, once=True,
        archive=tmp_path / "archive",
    )  # fmt: skip
    publish(node, name, range(90))
    run(spark, settings)
    newest = max((tmp_path / "checkpoints/tables/commits").glob("[0-9]*"))
    newest.unlink()
    publish(node, name, range(90, 150))
    run(spark, settings)
    shutil.rmtree(tmp_path / "checkpoints")
    run(spark, settings)
    with TypedTables(settings.archive) as found:
        named = found.named()
    silver, gold = table_name(f"{name}_readings"), table_name(f"{name}_hourly")
    good = [number for number in range(150) if number % 30 != 29]
    assert ids(named[silver]) == sorted(f"m{number}" for number in good)
    register_typed(spark, named)
    totals = spark.sql(f"SELECT hour(start), sum(count), min(min), max(max) FROM {gold} GROUP BY 1")
    assert sorted(map(tuple, totals.collect())) == [(0, 58, 0, 58), (1, 58, 0, 58), (2, 29, 0, 28)]
    catalog = SqlCatalog("chordmq", uri=f"sqlite:///{settings.archive / 'catalog.sqlite'}")
    rows = catalog.load_table(f"gold.{gold}").scan(row_filter="deviceId = 'd1'").to_arrow()
    catalog.close()
    assert sum(rows["count"].to_pylist()) == sum(1 for number in good if number % 2)
