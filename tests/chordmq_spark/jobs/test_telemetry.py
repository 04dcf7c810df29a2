"""The telemetry job on a real node, Spark, SQLite and MongoDB."""

import asyncio
import json
import sqlite3
from pathlib import Path
from typing import Any

from pymongo import MongoClient
from pyspark.sql import SparkSession

from chordmq.client.consumer import Consumer
from chordmq.client.producer import Producer
from chordmq_spark.jobs import telemetry
from chordmq_spark.pipeline import Pipeline, queries_of
from chordmq_spark.settings import PipelineSettings
from tests.mongodb import running_mongod
from tests.running_node import RunningNode


def publish(node: RunningNode, root: str, count: int, start: int = 0) -> None:
    """Publish readings of ten devices, every tenth of them a bad one, some of them twice."""

    async def send() -> None:
        async with Producer(node.bootstrap) as producer:
            for i in range(start, start + count):
                device = f"d{i % 10}"
                name = f"{root}/devices/{device}/telemetry/temp"
                good = {"metadata": {"messageId": f"m{i}"}, "payload": {"value": i, "unit": "F"}}
                value = b"broken" if i % 10 == 9 else json.dumps(good).encode()
                for _ in range(2 if i % 5 == 0 else 1):
                    await producer.enqueue(
                        f"{root}.devices",
                        value,
                        key=device.encode(),
                        headers=(("chordmq.topic", name.encode()),),
                    )

    asyncio.run(send())


def run(spark: SparkSession, settings: PipelineSettings) -> None:
    Pipeline(spark, settings, queries_of([telemetry.NAME])).run()


def settings_for(node: RunningNode, root: str, directory: Path, **more: Any) -> PipelineSettings:
    return PipelineSettings(
        bootstrap=node.bootstrap, directory=directory, root=root, once=True, **more
    )


async def dead_letters(node: RunningNode, topic: str, count: int) -> list[dict[str, bytes | None]]:
    found: list[dict[str, bytes | None]] = []
    async with Consumer(node.bootstrap) as consumer:
        await consumer.assign_topic(topic)
        while len(found) < count:
            chunk = await consumer.poll(60.0)
            assert chunk is not None, f"{len(found)} of {count} came"
            found += [dict(record.headers) for record in chunk.records]
        assert await consumer.poll(0.3) is None, "one was written twice"
    return found


def test_readings_are_stored_once_and_rejects_are_told_why(
    spark: SparkSession, node: RunningNode, name: str, tmp_path: Path
) -> None:
    """P3, E11: clean readings to the embedded store, bad ones to <topic>.dlq, repetitions gone.

    P6: the second run repeats the last batch of the first, and nothing shows it.
    """
    settings = settings_for(node, name, tmp_path)
    publish(node, name, 50)
    run(spark, settings)
    newest = max((tmp_path / "checkpoints/telemetry/commits").glob("[0-9]*"))
    newest.unlink()
    publish(node, name, 50, start=50)
    run(spark, settings)
    with sqlite3.connect(tmp_path / "readings.sqlite") as store:
        rows = store.execute("SELECT messageId, deviceId, metric, value, unit FROM readings")
        stored = {row[0]: row[1:] for row in rows}
        (latest,) = store.execute("SELECT count(*) FROM latest").fetchone()
    store.close()
    assert stored.keys() == {f"m{i}" for i in range(100) if i % 10 != 9}
    device, metric, value, unit = stored["m32"]
    assert (device, metric, round(value, 6), unit) == ("d2", "temperature", 0.0, "C")
    assert latest == 9
    dead = asyncio.run(dead_letters(node, f"{name}.devices.dlq", 10))
    assert {one["chordmq.dead.reason"] for one in dead} == {b"not JSON and not a number"}


def test_readings_go_to_a_real_mongodb(
    spark: SparkSession, node: RunningNode, name: str, tmp_path: Path
) -> None:
    """P3, E11: by message id, with the newest of each device kept apart."""
    with running_mongod(tmp_path) as address:
        publish(node, name, 50)
        run(spark, settings_for(node, name, tmp_path, mongodb=address))
        client: MongoClient[Any] = MongoClient(address)
        with client:
            database = client.get_default_database()
            ids = {row["_id"] for row in database["readings"].find()}
            newest = {row["_id"]: row["value"] for row in database["latest"].find()}
    assert ids == {f"m{i}" for i in range(50) if i % 10 != 9}
    assert round(newest["d1/temperature"], 6) == round((41 - 32) * 5 / 9, 6)
