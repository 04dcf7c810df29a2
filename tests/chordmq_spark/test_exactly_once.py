"""Kill -9 of every part of the pipeline, at random, while it works: each effect comes once."""

import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pymongo import MongoClient
from pymongo.collection import Collection

from chordmq.archive.table import Archive
from chordmq.client.bulk import Bulk, BulkSettings, OffsetRange
from chordmq.client.offsets import EARLIEST_TIME, LATEST_TIME
from chordmq.client.producer import Producer
from chordmq.records.record import Record, read_records
from tests.mongodb import running_mongod
from tests.running_node import RunningNode, die_with_parent
from tests.spark_cluster import (
    EXECUTOR,
    PYTHON_WORKER,
    SparkCluster,
    environment,
    kill_tree,
    spark_cluster,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3_600)]

MESSAGES = int(os.environ.get("CHORDMQ_KILLED_MESSAGES", "200_000"))
PARTS = os.environ.get(
    "CHORDMQ_KILLED_PARTS", "broker,driver,archiver,executor,python worker"
).split(",")
"""Fewer messages and parts are for those who look for the reason of a failure."""
DEVICES = 500
ALERT_EVERY, BAD_EVERY, REPEATED_EVERY = 100, 50, 20
KILLS, CHUNK, PAUSE_S = 10, 500, 0.1
DEADLINE_S = 600.0
"""How long one part may take to come back, on a machine that does other things too."""
ROOT = "plant"
BAD = [number for number in range(MESSAGES) if number % BAD_EVERY == 7]
GOOD = [number for number in range(MESSAGES) if number % BAD_EVERY != 7]


class Program:
    """A command that is started again whenever it has ended, as a supervisor would."""

    def __init__(self, command: list[str], log: Path) -> None:
        self._command = command
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def revive(self) -> None:
        """Start it unless it runs."""
        if self._process is None or self._process.poll() is not None:
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    self._command, stdout=log, stderr=log, env=environment(),
                    preexec_fn=die_with_parent,
                )  # fmt: skip

    def kill9(self) -> None:
        """Kill it with everything below it: Python, and the JVM of the driver."""
        if self._process is not None:
            kill_tree(self._process.pid)
            self._process.wait(60)


def message(number: int) -> tuple[str, bytes]:
    """Return the device and the bytes of a message: good, too hot, or no reading at all."""
    device = f"d{number % DEVICES}"
    if number % BAD_EVERY == 7:
        return device, b"broken %d" % number
    value = 99.0 if number % ALERT_EVERY == 3 else 20.0
    said = {"metadata": {"messageId": f"m{number}"}, "payload": {"value": value}}
    return device, json.dumps(said).encode()


async def publish(node: RunningNode, numbers: Iterable[int]) -> None:
    """Send messages, some of them twice; the client tries again while the broker is away."""
    async with Producer(node.bootstrap) as producer:
        for number in numbers:
            device, value = message(number)
            name = f"{ROOT}/devices/{device}/telemetry/temperature".encode()
            for _ in range(2 if number % REPEATED_EVERY == 0 else 1):
                await producer.enqueue(
                    f"{ROOT}.devices", value, key=device.encode(),
                    headers=(("chordmq.topic", name),),
                )  # fmt: skip
            if number % CHUNK == 0:
                await asyncio.sleep(PAUSE_S)


@dataclass(frozen=True)
class Stage:
    """Everything that works together, and can die."""

    node: RunningNode
    cluster: SparkCluster
    driver: Program
    archiver: Program
    readings: Collection[dict[str, Any]]

    def revive(self) -> None:
        """Start what has ended."""
        self.driver.revive()
        self.archiver.revive()

    def kill(self, part: str, chance: random.Random) -> None:
        """Kill -9 one part; the broker and the cluster's processes come back by themselves."""
        match part:
            case "broker":
                self.node.restart()
            case "driver":
                self.driver.kill9()
            case "archiver":
                self.archiver.kill9()
            case _:
                found = self._await_some(EXECUTOR if part == "executor" else PYTHON_WORKER)
                os.kill(chance.choice(found), signal.SIGKILL)

    def _await_some(self, kind: str) -> list[int]:
        """Return processes of the cluster; a driver that was killed before has to start some."""
        deadline = time.monotonic() + DEADLINE_S
        while not (found := self.cluster.pids(kind)):
            assert time.monotonic() < deadline, f"no {kind}"
            self.revive()
            time.sleep(0.2)
        return found


TOOL = [sys.executable, "-m", "chordmq"]


def archive_command(node: RunningNode, directory: Path) -> list[str]:
    where = ["--bootstrap", node.bootstrap, "--directory", str(directory / "archive")]
    return [*TOOL, "archive", "run", f"{ROOT}.devices", *where]


@contextmanager
def everything(node: RunningNode, directory: Path) -> Iterator[Stage]:
    """Run MongoDB and a cluster of Spark, and prepare the programs that use them."""
    with running_mongod(directory) as mongodb, spark_cluster(directory / "spark") as cluster:
        options = {
            "bootstrap": node.bootstrap, "mongodb": mongodb, "root": ROOT, "metrics-port": "0",
            "directory": str(directory / "pipeline"),
        }  # fmt: skip
        told = [word for name, value in options.items() for word in ("--option", f"{name}={value}")]
        submit = [*TOOL, "pipeline", "submit", "telemetry", "--master", cluster.master, *told]
        driver = Program(submit, directory / "driver.log")
        archiver = Program(
            [*archive_command(node, directory), "--every", "1"], directory / "archiver.log"
        )
        client: MongoClient[dict[str, Any]] = MongoClient(mongodb)
        try:
            readings = client.get_default_database()["readings"]
            yield Stage(node, cluster, driver, archiver, readings)
        finally:
            driver.kill9()
            archiver.kill9()
            client.close()


def under_fire(stage: Stage, chance: random.Random) -> None:
    """Kill one part after the other, each while messages come, and let all of them be stored."""
    doomed = [*PARTS] * (KILLS // len(PARTS))
    chance.shuffle(doomed)
    edges = [MESSAGES * step // (KILLS + 1) for step in range(KILLS + 2)]
    with ThreadPoolExecutor(1) as beside:
        # With the first messages everybody begins, and nobody dies.
        for part, (start, stop) in zip(["", *doomed], pairwise(edges), strict=True):
            before = stored(stage)
            sent = beside.submit(send, stage.node, range(start, stop))
            if part:
                time.sleep(chance.uniform(0.0, 5.0))
                stage.kill(part, chance)
            await_more(stage, sent, before if stop < MESSAGES else len(GOOD) - 1)
            sent.result()


def send(node: RunningNode, numbers: Iterable[int]) -> None:
    asyncio.run(publish(node, numbers))


def await_more(stage: Stage, sent: Future[None], before: int) -> None:
    """Wait until everything is sent and more is stored than before; start what has ended."""
    deadline = time.monotonic() + DEADLINE_S
    while not sent.done() or (sent.exception() is None and stored(stage) <= before):
        assert time.monotonic() < deadline, (stored(stage), before)
        stage.revive()
        time.sleep(0.2)


def stored(stage: Stage) -> int:
    return stage.readings.estimated_document_count()


def await_dead_letters(stage: Stage) -> None:
    """Wait for the rejects of the last batch, which are written beside its readings."""
    deadline = time.monotonic() + DEADLINE_S
    while sum(1 for _ in records(stage.node, f"{ROOT}.devices.dlq")) < len(BAD):
        assert time.monotonic() < deadline, "dead letters are missing"
        stage.revive()
        time.sleep(0.5)


def records(node: RunningNode, topic: str) -> Iterator[Record]:
    """Yield all committed records of a topic; none while there is no such topic."""
    with Bulk(BulkSettings(bootstrap=node.bootstrap)) as broker:
        places = broker.places_like(re.escape(topic))
        first = broker.offsets(dict.fromkeys(places, EARLIEST_TIME))
        last = broker.offsets(dict.fromkeys(places, LATEST_TIME))
        for place in places:
            for data, visible in broker.fetch(OffsetRange(*place, first[place], last[place])):
                for position, header in visible.batches:
                    yield from read_records(data[position : position + header.size])


def test_every_effect_comes_once_whatever_is_killed(own_node: RunningNode, tmp_path: Path) -> None:
    """P6, P1, P3, P5: driver, executor, Python worker, broker and archiver die by kill -9.

    The driver runs on a standalone master with two workers, by `chordmq pipeline submit`. MongoDB,
    the topics of alerts and rejects, and the archive have each message's effect exactly once.
    """
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # shown if the test fails
    with everything(own_node, tmp_path) as stage:
        under_fire(stage, random.Random(seed))
        await_dead_letters(stage)
        ids = {row["_id"] for row in stage.readings.find({}, {"_id": 1})}
    assert ids == {f"m{number}" for number in GOOD}
    alerts = (json.loads(one.value or b"") for one in records(own_node, f"{ROOT}.system"))
    assert Counter(one["payload"]["messageId"] for one in alerts) == Counter(
        f"m{number}" for number in GOOD if number % ALERT_EVERY == 3
    )
    dead = Counter(one.value for one in records(own_node, f"{ROOT}.devices.dlq"))
    assert dead == Counter(b"broken %d" % number for number in BAD)
    subprocess.run(archive_command(own_node, tmp_path), check=True)
    archive = Archive(tmp_path / "archive")
    tables = [pq.read_table(path) for path in archive.files(f"{ROOT}.devices").paths]
    archive.close()
    archived = Counter(value for table in tables for value in table["value"].to_pylist())
    assert archived == Counter(one.value for one in records(own_node, f"{ROOT}.devices"))
