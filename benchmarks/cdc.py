"""Follows real databases: how fast a backlog of changes is told, and how soon a single one is."""

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import psycopg
from confluent_kafka import Consumer, KafkaException, TopicPartition

from benchmarks.debezium import Worker
from benchmarks.session import Sample, Session
from benchmarks.usage import usage_of
from tests.cdc import oracle
from tests.cdc.following import FollowingProcess
from tests.postgres import RunningPostgres, running_postgres
from tests.replica_set import RunningReplicaSet, running_replica_set

POSTGRES_CHANGES, MONGODB_CHANGES = 300_000, 60_000
JOINED = 1_000
LATENCY_CHANGES = 500
GAP_S = 0.01
WARM = 0.1
"""Part of a backlog that is read before the clock starts: connections and caches."""
PATIENCE_S = 300.0
PROBE_EVERY_S = 1.0
COMMAND = "python -m benchmarks --case cdc"
TABLE = (
    "CREATE TABLE events (id bigserial PRIMARY KEY, device int, name text, value float8, at float8)"
)
ROWS = (
    "INSERT INTO events (device, name, value, at) "
    "SELECT g, 'device-' || g, g * 1.5, 0 FROM generate_series(1, %s) g"
)
ROW = "INSERT INTO events (device, name, value, at) VALUES (1, 'x', 1, %s)"


class Follower(Protocol):
    """Something that writes the changes of a database into a topic."""

    @property
    def pid(self) -> int:
        """Return the process that does so."""
        ...

    def start(self) -> None:
        """Go on where it was."""
        ...

    def stop(self) -> object:
        """End in order."""
        ...

    def close(self) -> None:
        """End in any case."""
        ...


@dataclass(frozen=True, slots=True)
class Load:
    """Changes to follow, the topic that tells them, and when an event says that one was made."""

    count: int
    fill: Callable[[], None]
    change: Callable[[], object]
    topic: str
    made_s: Callable[[Any], float]


@dataclass(frozen=True, slots=True)
class Cost:
    """How fast a backlog was told, and what that took."""

    per_s: float
    cpu_us: float
    """Processor time of a change."""
    rss_mb: float


def cdc(session: Session) -> list[Sample]:
    """Follow PostgreSQL and MongoDB; then Debezium does, the same changes into the same topics."""
    if not session.ours:
        return []
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        with running_postgres() as postgres:
            found = _postgres(session, postgres, directory)
        with running_replica_set(directory / "mongodb") as mongodb:
            found += _mongodb(session, mongodb, directory)
    return found


def _postgres(session: Session, server: RunningPostgres, directory: Path) -> list[Sample]:
    with psycopg.connect(server.address, autocommit=True) as connection:
        connection.execute(TABLE)

        def fill() -> None:
            for _ in range(POSTGRES_CHANGES // JOINED):
                connection.execute(ROWS, [JOINED])

        load = Load(
            POSTGRES_CHANGES,
            fill,
            lambda: connection.execute(ROW, [time.time()]),
            "pg.public.events",
            lambda event: float(event["after"]["at"]),
        )
        source = {"name": "pg", "kind": "postgresql", "address": server.address}
        connector = oracle.postgres_properties(server, directory) | {"topic.prefix": "pg"}
        return _compared(session, load, source, connector, directory)


def _mongodb(session: Session, server: RunningReplicaSet, directory: Path) -> list[Sample]:
    with server.client() as client:
        events = client.shop.create_collection("events")

        def fill() -> None:
            for _ in range(MONGODB_CHANGES // JOINED):
                events.insert_many(
                    [{"device": n, "name": f"device-{n}", "value": n * 1.5} for n in range(JOINED)]
                )

        load = Load(
            MONGODB_CHANGES,
            fill,
            lambda: events.insert_one({"at": time.time()}),
            "mg.shop.events",
            lambda event: float(json.loads(event["after"])["at"]),
        )
        source = {"name": "mg", "kind": "mongodb", "address": server.address}
        connector = oracle.mongodb_properties(server, directory) | {
            "topic.prefix": "mg",
            "capture.mode": "change_streams_update_full",
        }
        return _compared(session, load, source, connector, directory)


def _compared(
    session: Session,
    load: Load,
    source: dict[str, str],
    connector: dict[str, str],
    directory: Path,
) -> list[Sample]:
    """Measure our source, and then Debezium's."""
    kind = source["kind"]
    settings = {"bootstrap.servers": session.bootstrap, "group.id": f"bench-{kind}"}
    with closing(Consumer(settings)) as consumer:
        with closing(
            FollowingProcess(directory, source | {"snapshot": "never"}, session.bootstrap)
        ) as ours:
            cost = _measured(ours, load, consumer)
            taken_ms = _latencies(session, load)
        with closing(Worker(directory / f"debezium-{kind}", connector, session.bootstrap)) as peer:
            theirs = _measured(peer, load, consumer)
    name, percentiles = f"cdc_{kind}", statistics.quantiles(taken_ms, n=100)
    return [
        *_samples(name, cost),
        _sample(f"{name}_latency.p50", percentiles[49], "ms"),
        _sample(f"{name}_latency.p99", percentiles[98], "ms"),
        *_samples(f"debezium_{kind}", theirs),
    ]


def _measured(follower: Follower, load: Load, consumer: Consumer) -> Cost:
    """Let a follower tell what it has missed while it was away; marks of transactions count."""

    def told() -> int:
        try:
            return consumer.get_watermark_offsets(TopicPartition(load.topic, 0), timeout=10)[1]
        except KafkaException:
            return 0  # the topic is made with its first event

    def is_awake() -> bool:
        load.change()
        time.sleep(PROBE_EVERY_S)
        return told() > before

    before = told()
    follower.start()
    _await(is_awake)
    follower.stop()
    load.fill()
    before = told()
    follower.start()
    _await(lambda: told() >= before + load.count * WARM)
    began, first, spent = time.perf_counter(), told(), usage_of(follower.pid)
    _await(lambda: told() >= before + load.count)
    took_s, last, total = time.perf_counter() - began, told(), usage_of(follower.pid)
    cpu_s = total.cpu_s - spent.cpu_s
    return Cost((last - first) / took_s, cpu_s * 1e6 / (last - first), total.rss_mb)


def _latencies(session: Session, load: Load) -> list[float]:
    """Return milliseconds from just before a change until a consumer has its event."""
    settings = {
        "bootstrap.servers": session.bootstrap,
        "group.id": "bench-cdc",
        "isolation.level": "read_committed",
        "fetch.wait.max.ms": 500,
    }
    found: list[float] = []
    with closing(Consumer(settings)) as consumer:
        _, end = consumer.get_watermark_offsets(TopicPartition(load.topic, 0), timeout=10)
        consumer.assign([TopicPartition(load.topic, 0, end)])
        consumer.poll(0.5)
        for _ in range(LATENCY_CHANGES):
            load.change()
            while (message := consumer.poll(10.0)) is not None and message.error():
                continue
            if message is None:
                raise TimeoutError(f"no event came in {load.topic}")
            event = json.loads(message.value() or b"{}")
            found.append((time.time() - load.made_s(event)) * 1000)
            time.sleep(GAP_S)
    return found


def _await(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError("the source did not get so far")
        time.sleep(0.02)


def _samples(name: str, cost: Cost) -> list[Sample]:
    return [
        _sample(name, cost.per_s, "changes/s"),
        _sample(f"{name}.cpu", cost.cpu_us, "CPU µs/change"),
        _sample(f"{name}.rss", cost.rss_mb, "MB"),
    ]


def _sample(name: str, value: float, unit: str) -> Sample:
    return Sample(name, value, unit, 0.0, 0.0, COMMAND)
