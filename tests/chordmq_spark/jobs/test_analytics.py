"""The analytics job on a real node: what it finds is read like any other message."""

import asyncio
import json
import sqlite3
import urllib.request
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from chordmq.client.consumer import Consumer
from chordmq.client.producer import Producer
from chordmq_spark.pipeline import Pipeline, queries_of
from chordmq_spark.settings import PipelineSettings
from tests.running_node import RunningNode, free_port


async def say(node: RunningNode, root: str, device: str, value: float, second: int) -> None:
    name = f"{root}/devices/{device}/telemetry/temperature"
    time = f"2026-11-01T12:{second // 60:02}:{second % 60:02}Z"
    message = {"metadata": {"messageId": f"{device}-{second}", "timestamp": time}, "payload": value}
    async with Producer(node.bootstrap) as producer:
        await producer.send(
            f"{root}.devices",
            json.dumps(message).encode(),
            key=device.encode(),
            headers=(("chordmq.topic", name.encode()),),
        )


async def messages(node: RunningNode, root: str, wanted: str, count: int) -> list[dict[str, Any]]:
    """Return payloads of one name of the system, as soon as there are so many."""
    found: list[dict[str, Any]] = []
    async with Consumer(node.bootstrap) as consumer:
        await consumer.assign_topic(f"{root}.system")
        while len(found) < count:
            chunk = await consumer.poll(20.0)
            assert chunk is not None, found
            found += [
                json.loads(record.value or b"")["payload"]
                for record in chunk.records
                if dict(record.headers)["chordmq.topic"] == f"{root}/system/{wanted}".encode()
            ]
    return found


def test_alerts_and_aggregates_come_back_as_messages(
    spark: SparkSession, node: RunningNode, name: str, tmp_path: Path
) -> None:
    """P4: a reading above its threshold, and the minutes that are over, in topics of the system.

    P7: how far each query is can be read as metrics.
    """
    settings = PipelineSettings(
        bootstrap=node.bootstrap, directory=tmp_path, root=name, once=True, late="0 seconds"
    )
    readings = [("d1", 20.0, 0), ("d1", 30.0, 30), ("d2", 99.0, 40), ("d1", 21.0, 300)]
    for reading in readings:
        asyncio.run(say(node, name, *reading))
    port = free_port()
    pipeline = Pipeline(spark, settings, queries_of(["telemetry", "analytics"], once=True))
    pipeline.run(metrics_port=port)
    (alert,) = asyncio.run(messages(node, name, "alerts", 1))
    assert (alert["deviceId"], alert["kind"], alert["limit"]) == ("d2", "threshold", 60.0)
    first, second = asyncio.run(messages(node, name, "aggregates", 2))
    totals = {one["deviceId"]: (one["count"], one["mean"]) for one in (first, second)}
    assert totals == {"d1": (2, 25.0), "d2": (1, 99.0)}
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        shown = answer.read().decode()
    assert 'chordmq_pipeline_rows_total{query="telemetry"} 4.0' in shown
    assert 'chordmq_pipeline_lag_records{query="aggregates"} 0.0' in shown


def test_a_late_reading_is_stored_and_does_not_open_its_window_again(
    spark: SparkSession, node: RunningNode, name: str, tmp_path: Path
) -> None:
    """P4, P3: late and out-of-order readings; what was told of a window is told once."""
    settings = PipelineSettings(
        bootstrap=node.bootstrap, directory=tmp_path, root=name, once=True, late="30 seconds"
    )
    batches = [
        [("d", 20.0, 50), ("d", 10.0, 5), ("d", 1.0, 300)],  # the second is out of order
        [("d", 90.0, 7), ("d", 2.0, 310), ("d", 3.0, 600)],  # the first is five minutes late
    ]
    for batch in batches:
        for reading in batch:
            asyncio.run(say(node, name, *reading))
        Pipeline(spark, settings, queries_of(["telemetry", "analytics"], once=True)).run()
    found = asyncio.run(messages(node, name, "aggregates", 2))
    assert [(one["start"][14:16], one["count"], one["max"]) for one in found] == [
        ("00", 2, 20.0),
        ("05", 2, 2.0),
    ]
    with sqlite3.connect(tmp_path / "readings.sqlite") as store:
        values = [value for (value,) in store.execute("SELECT value FROM readings ORDER BY value")]
    store.close()
    assert values == [1.0, 2.0, 3.0, 10.0, 20.0, 90.0]
