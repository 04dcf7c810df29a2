"""Follows real databases: how fast a backlog of changes is told, and how soon a single one is."""

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
from confluent_kafka import Consumer, TopicPartition

from benchmarks.session import Sample, Session
from tests.cdc import oracle
from tests.cdc.following import FollowingProcess
from tests.postgres import RunningPostgres, running_postgres
from tests.replica_set import RunningReplicaSet, running_replica_set
from tests.running_node import free_port

POSTGRES_CHANGES, MONGODB_CHANGES = 300_000, 60_000
JOINED = 1_000
LATENCY_CHANGES = 500
GAP_S = 0.01
WARM = 0.1
"""Part of a backlog that is read before the clock starts: connections and caches."""
PATIENCE_S = 300.0
COMMAND = "python -m benchmarks --case cdc"
TABLE = (
    "CREATE TABLE events (id bigserial PRIMARY KEY, device int, name text, value float8, at float8)"
)
ROWS = (
    "INSERT INTO events (device, name, value, at) "
    "SELECT g, 'device-' || g, g * 1.5, 0 FROM generate_series(1, %s) g"
)


def cdc(session: Session) -> list[Sample]:
    """Follow PostgreSQL and MongoDB into the broker; the peer is Debezium, without a broker."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        with running_postgres() as postgres:
            postgres.execute(TABLE)
            found = _postgres(session, postgres, directory)
        with running_replica_set(directory / "mongodb") as mongodb:
            with mongodb.client() as client:
                client.shop.create_collection("events")
            found += _mongodb(session, mongodb, directory)
    return found


def _postgres(session: Session, server: RunningPostgres, directory: Path) -> list[Sample]:
    def fill() -> None:
        with psycopg.connect(server.address, autocommit=True) as connection:
            for _ in range(POSTGRES_CHANGES // JOINED):
                connection.execute(ROWS, [JOINED])

    if not session.ours:
        properties = oracle.postgres_properties(server, directory)
        rate = _debezium(properties, directory, fill, POSTGRES_CHANGES)
        return [_sample("cdc_postgresql", rate, "changes/s")]
    source = {"name": "pg", "kind": "postgresql", "address": server.address}
    with _followed(session, source | {"snapshot": "never"}, directory) as adapter:
        rate = _rate(adapter, fill, POSTGRES_CHANGES)
        with psycopg.connect(server.address, autocommit=True) as connection:
            query = "INSERT INTO events (device, name, value, at) VALUES (1, 'x', 1, %s)"
            taken = _latencies(
                session,
                "pg.public.events",
                lambda: connection.execute(query, [time.time()]),
                lambda value: value["after"]["at"],
            )
    return _samples("cdc_postgresql", rate, taken)


def _mongodb(session: Session, server: RunningReplicaSet, directory: Path) -> list[Sample]:
    def fill() -> None:
        with server.client() as client:
            for _ in range(MONGODB_CHANGES // JOINED):
                client.shop.events.insert_many(
                    [{"device": n, "name": f"device-{n}", "value": n * 1.5} for n in range(JOINED)]
                )

    if not session.ours:
        properties = oracle.mongodb_properties(server, directory / "debezium-mongodb")
        rate = _debezium(properties, directory / "debezium-mongodb", fill, MONGODB_CHANGES)
        return [_sample("cdc_mongodb", rate, "changes/s")]
    source = {"name": "mg", "kind": "mongodb", "address": server.address}
    with _followed(session, source | {"snapshot": "never"}, directory) as adapter:
        rate = _rate(adapter, fill, MONGODB_CHANGES)
        with server.client() as client:
            taken = _latencies(
                session,
                "mg.shop.events",
                lambda: client.shop.events.insert_one({"at": time.time()}),
                lambda value: json.loads(value["after"])["at"],
            )
    return _samples("cdc_mongodb", rate, taken)


@contextmanager
def _followed(
    session: Session, source: dict[str, Any], directory: Path
) -> Iterator[FollowingProcess]:
    adapter = FollowingProcess(directory, source | {"port": free_port()}, session.bootstrap)
    adapter.start()
    try:
        yield adapter
    finally:
        adapter.close()


def _rate(adapter: FollowingProcess, fill: Callable[[], None], count: int) -> float:
    """Return changes per second while a source that was away tells what it has missed."""
    _await(lambda: adapter.health().get("state") == "streaming")
    adapter.stop()
    fill()
    adapter.start()
    _await(lambda: adapter.health().get("changes", 0) >= count * WARM)
    began, first = time.perf_counter(), adapter.health()["changes"]
    _await(lambda: adapter.health().get("changes", 0) >= count)
    return float((count - first) / (time.perf_counter() - began))


def _latencies(
    session: Session, topic: str, change: Callable[[], Any], at: Callable[[Any], float]
) -> list[float]:
    """Return milliseconds from just before a change until a consumer has its event."""
    settings = {
        "bootstrap.servers": session.bootstrap,
        "group.id": "bench-cdc",
        "isolation.level": "read_committed",
        "fetch.wait.max.ms": 500,
    }
    found: list[float] = []
    with closing(Consumer(settings)) as consumer:
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)
        consumer.assign([TopicPartition(topic, 0, end)])
        consumer.poll(0.5)
        for _ in range(LATENCY_CHANGES):
            change()
            while (message := consumer.poll(10.0)) is not None and message.error():
                continue
            if message is None:
                raise TimeoutError(f"no event came in {topic}")
            found.append((time.time() - at(json.loads(message.value() or b"{}"))) * 1000)
            time.sleep(GAP_S)
    return found


def _debezium(
    properties: dict[str, str], directory: Path, fill: Callable[[], None], count: int
) -> float:
    """Return the rate of Debezium's own engine, which writes its events to a file."""
    properties |= {"snapshot.mode": "no_data", "max.batch.size": "8192", "max.queue.size": "32768"}
    with oracle.debezium(properties, directory) as output:
        log = directory / "engine.log"
        _await(lambda: "Starting streaming" in log.read_text())
        fill()
        _await(lambda: _lines(output) >= count * WARM)
        began, first = time.perf_counter(), _lines(output)
        _await(lambda: _lines(output) >= count)
        return (count - first) / (time.perf_counter() - began)


def _lines(file: Path) -> int:
    return file.read_bytes().count(b"\n") if file.exists() else 0


def _await(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError("the source did not get so far")
        time.sleep(0.1)


def _samples(name: str, rate: float, taken_ms: list[float]) -> list[Sample]:
    percentiles = statistics.quantiles(taken_ms, n=100)
    return [
        _sample(name, rate, "changes/s"),
        _sample(f"{name}_latency.p50", percentiles[49], "ms"),
        _sample(f"{name}_latency.p99", percentiles[98], "ms"),
    ]


def _sample(name: str, value: float, unit: str) -> Sample:
    return Sample(name, value, unit, 0.0, 0.0, COMMAND)
