"""The data pipeline as a whole: readings to MongoDB by Spark, and alerts from MQTT to WebSocket."""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from pymongo import MongoClient
from pymongo.collection import Collection
from websockets.sync.client import connect

from benchmarks import load, wire
from benchmarks.peers import ROOT, Peer, PeerFailed, start_chordmq
from benchmarks.session import OURS, CountMismatch, Sample
from benchmarks.usage import usage_of
from chordmq.records.record import NewRecord, build_batch
from chordmq_spark.settings import PipelineSettings
from tests.mongodb import running_mongod

TOPIC, PARTITIONS, ROWS_PER_BATCH, DEVICES = "iotsphere.devices", 4, 500, 2_000
COMMAND = "python -m benchmarks --case pipeline"
TIMEOUT_S = 600.0
WARM_UP, ALERTS = 5, 20
Readings = Collection[dict[str, Any]]


def pipeline(directory: Path, messages: int) -> list[Sample]:
    """Have the telemetry job store readings that wait in the log, then tell it of hot ones."""
    peer = start_chordmq(directory / "node")
    try:
        with running_mongod(directory) as address:
            load.create_topic(peer.bootstrap, TOPIC, PARTITIONS, OURS["os"])
            count = _fill(peer.bootstrap, messages)
            client: MongoClient[dict[str, Any]] = MongoClient(address)
            with client, _running(peer, address, directory) as job:
                started = time.perf_counter()
                readings = client.get_default_database()["readings"]
                _await(readings, 1, job)
                ready_s = time.perf_counter() - started
                # From one end of a batch to another: inside of one, only MongoDB would be measured.
                first = _await(readings, PipelineSettings().rows_per_batch, job)
                begun = time.perf_counter()
                _await(readings, count, job)
                rate = (count - first) / (time.perf_counter() - begun)
                if (found := readings.count_documents({})) != count:
                    raise CountMismatch(f"{count} readings sent, {found} stored")
                delays_s = _alerts(directory / "node")
                used = usage_of(job.pid)
    finally:
        peer.stop()
    cost = (used.cpu_s, used.rss_mb, COMMAND)
    return [
        Sample("pipeline_to_mongodb", rate, "msg/s", *cost),
        Sample("pipeline_first_batch", ready_s, "s", *cost),
        Sample("pipeline_alert.p50", statistics.median(delays_s), "s", *cost),
        Sample("pipeline_alert.max", max(delays_s), "s", *cost),
    ]


def _fill(bootstrap: str, messages: int) -> int:
    """Write readings in envelopes, each with an id of its own; return how many there are."""
    now_ms = time.time_ns() // 1_000_000
    batches = messages // ROWS_PER_BATCH
    with wire.connect(bootstrap) as sock:
        for number in range(batches):
            first = number * ROWS_PER_BATCH
            records = [_reading(first + place, now_ms) for place in range(ROWS_PER_BATCH)]
            data = bytes(build_batch(records))
            sock.sendall(wire.produce_request(TOPIC, number % PARTITIONS, data, acks=1))
            if error := wire.produce_error(wire.read_answer(sock), TOPIC):
                raise wire.WireError(f"produce answered with error {error}")
    return batches * ROWS_PER_BATCH


def _reading(number: int, now_ms: int) -> NewRecord:
    device = f"d{number % DEVICES}"
    name = f"iotsphere/devices/{device}/telemetry/temperature"
    said = {
        "messageId": f"m-{number:012}", "timestamp": "2026-11-16T08:00:00Z", "topic": name,
        "source": device, "messageType": "event", "version": "1.0",
    }  # fmt: skip
    payload = {"value": 20 + number % 170 / 10, "unit": "C"}
    value = json.dumps({"metadata": said, "payload": payload}).encode()
    return NewRecord(now_ms, device.encode(), value, (("chordmq.topic", name.encode()),))


@contextmanager
def _running(peer: Peer, mongodb: str, directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "chordmq", "pipeline", "run", "telemetry"]
    command += ["--bootstrap", peer.bootstrap, "--mongodb", mongodb, "--metrics-port", "0"]
    command += ["--directory", str(directory / "pipeline"), "--master", "local[2]"]
    with (directory / "pipeline.log").open("wb") as log:
        job = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
    try:
        yield job
    finally:
        job.terminate()
        job.wait(60)


def _await(readings: Readings, count: int, job: subprocess.Popen[bytes]) -> int:
    """Return how many readings are stored, as soon as there are enough."""
    deadline = time.monotonic() + TIMEOUT_S
    while (found := readings.estimated_document_count()) < count:
        if job.poll() is not None or time.monotonic() > deadline:
            raise PeerFailed(f"the pipeline stores no more than {found} of {count} readings")
        time.sleep(0.02)
    return found


def _alerts(node: Path) -> list[float]:
    """Publish hot readings over MQTT, and return how long each alert takes to a WebSocket."""
    ports = dict(zip(("kafka", "http", "framed", "provider", "mqtt"), _ports(node), strict=False))
    client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
    client.connect("127.0.0.1", ports["mqtt"])
    client.loop_start()
    delays_s = []
    with connect(f"ws://127.0.0.1:{ports['http']}/ws") as socket:
        told = {"type": "subscribe", "id": 1, "topic": "iotsphere/system/alerts"}
        socket.send(json.dumps(told))
        socket.recv(30)
        socket.recv(30)
        for _ in range(WARM_UP + ALERTS):
            sent = time.perf_counter()
            client.publish("iotsphere/devices/boiler/telemetry/temperature", "99", 1)
            socket.recv(60)
            delays_s.append(time.perf_counter() - sent)
            time.sleep(0.37)  # so that alerts do not walk in step with the trigger
    client.disconnect()
    client.loop_stop()
    return delays_s[WARM_UP:]


def _ports(node: Path) -> list[int]:
    return [int(port) for port in (node / "ports").read_text().split()]
