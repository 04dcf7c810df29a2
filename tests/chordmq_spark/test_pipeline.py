"""The whole chain with real parts: devices over MQTT, Spark, MongoDB, and a browser's WebSocket."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from pymongo import MongoClient
from pyspark.sql import SparkSession
from websockets.sync.client import ClientConnection, connect

from chordmq_spark.pipeline import Pipeline, UnknownJob, queries_of
from chordmq_spark.settings import PipelineSettings
from tests.mongodb import running_mongod
from tests.running_node import RunningNode

pytestmark = pytest.mark.timeout(500)

WAIT_S = 150.0


@contextmanager
def device(node: RunningNode) -> Iterator[paho.Client]:
    """Connect as a device does."""
    client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
    client.connect(*node.mqtt_address)
    client.loop_start()
    yield client
    client.disconnect()
    client.loop_stop()


@contextmanager
def browser(node: RunningNode, topic: str) -> Iterator[ClientConnection]:
    """Connect as the page of a user does, and subscribe."""
    with connect(f"ws://127.0.0.1:{node.http_address[1]}/ws") as socket:
        told = {"type": "subscribe", "id": 1, "topic": topic, "start": "earliest"}
        socket.send(json.dumps(told))
        assert [json.loads(socket.recv(WAIT_S))["type"] for _ in range(2)] == [
            "welcome",
            "subscribed",
        ]
        yield socket


@contextmanager
def running(spark: SparkSession, settings: PipelineSettings) -> Iterator[Pipeline]:
    """Run the telemetry job beside the test, as `chordmq pipeline run` does."""
    pipeline = Pipeline(spark, settings, queries_of(["telemetry"]))
    thread = threading.Thread(target=pipeline.run, daemon=True)
    thread.start()
    yield pipeline
    pipeline.stop()
    thread.join(WAIT_S)
    assert not thread.is_alive()


def say(client: paho.Client, name: str, payload: object) -> None:
    sent = client.publish(name, json.dumps(payload), 1)
    sent.wait_for_publish(WAIT_S)
    assert sent.is_published()


def test_a_reading_goes_from_a_device_to_mongodb_and_its_alert_to_a_browser(
    spark: SparkSession, node: RunningNode, name: str, tmp_path: Path
) -> None:
    """E11, P1, P3, P4: MQTT, broker, Spark Structured Streaming, MongoDB and WebSocket together."""
    with running_mongod(tmp_path) as address:
        settings = PipelineSettings(
            bootstrap=node.bootstrap, directory=tmp_path, root=name, mongodb=address,
            trigger="200 milliseconds",
        )  # fmt: skip
        reading = f"{name}/devices/boiler/telemetry/temp"
        with running(spark, settings), device(node) as client:
            say(client, reading, {"value": 68, "unit": "F"})
            say(client, reading, {"value": 99, "unit": "C"})
            with browser(node, f"{name}/system/alerts") as page:
                told = json.loads(page.recv(WAIT_S))["records"]
            stored = documents(address, 2)
    (alert,) = (json.loads(record["value"])["payload"] for record in told)
    assert (alert["deviceId"], alert["metric"], alert["value"]) == ("boiler", "temperature", 99.0)
    assert alert["reason"] == "temperature is above 60.0"
    assert [(row["deviceId"], round(row["value"], 6), row["unit"]) for row in stored] == [
        ("boiler", 20.0, "C"),
        ("boiler", 99.0, "C"),
    ]


def documents(address: str, count: int) -> list[dict[str, Any]]:
    client: MongoClient[dict[str, Any]] = MongoClient(address)
    deadline = time.monotonic() + WAIT_S
    with client:
        readings = client.get_default_database()["readings"]
        while readings.count_documents({}) < count:
            assert time.monotonic() < deadline, "the readings are not stored"
            time.sleep(0.05)
        return list(readings.find().sort("value"))


def test_a_job_that_is_not_there_is_refused_by_its_name() -> None:
    with pytest.raises(UnknownJob, match="no job nonsense"):
        queries_of(["nonsense"])
    assert set(queries_of(["all"])) == {"telemetry", "watch", "aggregates", "tables"}
    assert "watch" not in queries_of(["all"], once=True)
