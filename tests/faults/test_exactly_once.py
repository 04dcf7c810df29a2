"""Consume, transform, produce: exactly one result for each input, whatever dies and when."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.conftest import StartNode
from tests.interop.program import built, installed
from tests.interop.test_java import CLASSES, LIBRARIES, OPTIONS
from tests.running_node import RunningNode

SEED = int(os.environ.get("CHORDMQ_TEST_SEED", "20261115"))
ROUNDS = 24
INPUTS_PER_ROUND = 40
PARTITIONS = 3
WORKERS = 2
DRAIN_S = 180.0
LIBRDKAFKA = (sys.executable, str(Path(__file__).with_name("transformer.py")))


pytestmark = pytest.mark.timeout(400)


def java() -> tuple[str, ...]:
    """Return the command of the Java transformer, which uses the second transaction protocol."""
    classpath = f"{built(CLASSES)}:{built(LIBRARIES)}/*"
    return (installed("java"), *OPTIONS, "-cp", classpath, "Transformer")


class Workers:
    """Processes that transform; each is started again when it has died."""

    def __init__(self, node: RunningNode, log: Path, command: Sequence[str]) -> None:
        self._node = node
        self._log = log
        self._command = command
        self._processes: list[subprocess.Popen[bytes] | None] = [None] * WORKERS

    def keep_alive(self) -> None:
        for number, process in enumerate(self._processes):
            if process is None or process.poll() is not None:
                self._processes[number] = self._start(number)

    def kill(self, number: int) -> None:
        process = self._processes[number]
        if process is not None:
            process.kill()
            process.wait()

    def pause(self, number: int) -> None:
        self._signal(number, signal.SIGSTOP)

    def resume_all(self) -> None:
        for number in range(WORKERS):
            self._signal(number, signal.SIGCONT)

    def close(self) -> None:
        for number in range(WORKERS):
            self.kill(number)

    def _signal(self, number: int, what: signal.Signals) -> None:
        process = self._processes[number]
        if process is not None and process.poll() is None:
            process.send_signal(what)

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [*self._command, self._node.bootstrap, "in", "out", str(number)],
                stdout=log,
                stderr=log,
            )


@pytest.fixture
def own(start_node: StartNode) -> RunningNode:
    return start_node({"broker.group.min.session.timeout.ms": "500"})


@contextlib.contextmanager
def working(node: RunningNode, command: Sequence[str]) -> Iterator[Workers]:
    workers = Workers(node, node.directory / "workers.log", command)
    try:
        yield workers
    finally:
        workers.close()


def test_every_input_has_exactly_one_result_though_clients_and_node_are_killed(
    own: RunningNode,
) -> None:
    """C3: kill -9 of clients and of the node at random points, pauses beyond every time-out."""
    with working(own, LIBRDKAFKA) as workers:
        strike_and_count(own, workers)


@pytest.mark.slow
def test_the_same_holds_when_every_transaction_has_an_epoch_of_its_own(own: RunningNode) -> None:
    """C3: the second protocol, by the Java client."""
    with working(own, java()) as workers:
        strike_and_count(own, workers)


def strike_and_count(own: RunningNode, workers: Workers) -> None:
    """Feed the workers while things die, then look for one result of each input."""
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    create(own.bootstrap)
    feeder = Producer({"bootstrap.servers": own.bootstrap, "enable.idempotence": True})
    sent = 0
    for _ in range(ROUNDS):
        workers.keep_alive()
        for number in range(sent, sent + INPUTS_PER_ROUND):
            feeder.produce("in", key=str(number), value=str(number))
        assert feeder.flush(60) == 0
        sent += INPUTS_PER_ROUND
        time.sleep(chance.uniform(0.1, 2.0))  # not to wait for anything: when to strike
        strike(chance, own, workers)
    workers.resume_all()
    expected = Counter(str(number) for number in range(sent))
    found = results(own.bootstrap, workers, sent)
    assert found - expected == Counter(), "results that are there twice"
    assert expected - found == Counter(), "inputs without a result"


def strike(chance: random.Random, node: RunningNode, workers: Workers) -> None:
    """Let something die, or sleep longer than its session and its transaction last."""
    blow = chance.choice(["client", "client", "node", "both", "pause", "resume"])
    print(f"strike: {blow}")
    if blow in ("client", "both"):
        workers.kill(chance.randrange(WORKERS))
    if blow in ("node", "both"):
        node.restart()
    if blow == "pause":
        workers.pause(chance.randrange(WORKERS))
    if blow == "resume":
        workers.resume_all()


def create(bootstrap: str) -> None:
    wanted = [NewTopic("in", PARTITIONS, 1), NewTopic("out", PARTITIONS, 1)]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics(wanted).values():
        future.result(60)


def results(bootstrap: str, workers: Workers, wanted: int) -> Counter[str]:
    """Read the committed results until all have come and nothing more is there."""
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    reader.assign([TopicPartition("out", partition, 0) for partition in range(PARTITIONS)])
    found: Counter[str] = Counter()
    ended: set[int | None] = set()
    deadline = time.monotonic() + DRAIN_S
    with contextlib.closing(reader):
        while len(found) < wanted or len(ended) < PARTITIONS:
            assert time.monotonic() < deadline, f"{len(found)} of {wanted} results came"
            workers.keep_alive()
            message = reader.poll(0.2)
            if message is None:
                continue
            fault = message.error()
            if fault is None:
                found[(message.value() or b"").decode()] += 1
                ended.discard(message.partition())
            elif fault.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
    return found
