"""What every front that pushes owes its consumers, whoever of them is killed, away or slow."""

import json
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Producer

from tests.faults.subscribers.fronts import ALONE, FRONTS, UNHURRIED, subscriber_of
from tests.faults.subscribers.subscriber import Subscriber, Wanted
from tests.running_node import ROOT, RunningNode, die_with_parent

CONSUMERS = 3
AWAY = 10_000
HELD_MAX = 1_000
"""Messages that a consumer may have without having acknowledged them, at most."""
TIMEOUT_S = 120.0
STILL = 5
MIB = 1 << 20


ALL = [
    pytest.param(front, marks=pytest.mark.slow) if front in UNHURRIED else front for front in FRONTS
]
TOGETHER = [front for front in FRONTS if front not in ALONE]
READERS = [
    pytest.param(front, marks=pytest.mark.slow) if front == "amqp1" else front for front in TOGETHER
]


class Consumers:
    """Programs that consume, and what each of them has processed."""

    def __init__(self, node: RunningNode, directory: Path, front: str, index: str) -> None:
        self._node = node
        self._directory = directory
        self._front = front
        self._index = index
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, number: int, topic: str) -> None:
        """Start a consumer, for the first time or again."""
        name = f"{topic}-{number}" if self._index == "own" else topic
        memory = str(self._directory / f"place-{number}")
        wanted = Wanted(ports_of(self._node), topic, name, self._index, memory)
        command = [sys.executable, "-m", "tests.faults.subscribers.program", self._front]
        with self._file(number).open("ab") as out:
            self._running[number] = subprocess.Popen(
                [*command, json.dumps(wanted._asdict())],
                cwd=ROOT,
                stdout=out,
                preexec_fn=die_with_parent,
            )

    def kill(self, number: int) -> None:
        """End a consumer as a crash would."""
        consumer = self._running.pop(number)
        consumer.send_signal(signal.SIGKILL)
        consumer.wait()

    def processed(self, number: int) -> list[int]:
        """Return what a consumer has processed, in order."""
        text = self._file(number).read_text() if self._file(number).exists() else ""
        return [int(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def wait(self, is_done: Callable[[], bool]) -> None:
        """Wait until the consumers are as far as is wanted."""
        deadline = time.monotonic() + TIMEOUT_S
        while not is_done():
            assert all(one.poll() is None for one in self._running.values()), "a consumer ended"
            assert time.monotonic() < deadline, "not all was processed in time"
            time.sleep(0.05)

    def close(self) -> None:
        for number in list(self._running):
            self.kill(number)

    def _file(self, number: int) -> Path:
        return self._directory / f"processed-{number}"


StartConsumers = Callable[[str, str], Consumers]


@pytest.fixture
def consumers(node: RunningNode, tmp_path: Path) -> Iterator[StartConsumers]:
    """Give a function that makes consumers of a front."""
    made: list[Consumers] = []

    def make(front: str, index: str) -> Consumers:
        made.append(Consumers(node, tmp_path, front, index))
        return made[-1]

    yield make
    for one in made:
        one.close()


def ports_of(node: RunningNode) -> dict[str, int]:
    """Return where the node listens, by front, as it says itself."""
    about = httpx.get(f"{node.http}/v1/info", timeout=60).json()
    ports = {}
    for name, value in about.items():
        port = str(value).rpartition(":")[2]
        if isinstance(value, str) and port.isdigit() and value.startswith("127."):
            ports[name] = int(port)
    return ports


def create(node: RunningNode, topic: str) -> None:
    body = {"name": topic, "partitions": 1, "settings": {"flush": "os"}}
    assert httpx.post(f"{node.http}/v1/topics", json=body, timeout=60).status_code == 201


def publish(node: RunningNode, topic: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap, "linger.ms": 5})
    for number in numbers:
        producer.produce(topic, b"%d" % number)
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0


@pytest.mark.parametrize("front", ALL)
def test_a_shared_message_is_processed_by_one_though_a_consumer_is_killed(
    node: RunningNode, consumers: StartConsumers, front: str, name: str
) -> None:
    """A3, D8: three share an index, one dies by kill -9: the others get what it held, once."""
    create(node, name)
    group = consumers(front, "shared")
    publish(node, name, range(100))
    for number in range(CONSUMERS):
        group.start(number, name)
    publish(node, name, range(100, 1_000))
    everybody = range(CONSUMERS)
    group.wait(lambda: any(map(group.processed, everybody)))
    dying = next(filter(group.processed, everybody))
    group.kill(dying)
    publish(node, name, range(1_000, 2_000))
    group.wait(lambda: len(set().union(*map(group.processed, everybody))) == 2_000)
    dead = group.processed(dying)
    second, third = (group.processed(number) for number in everybody if number != dying)
    assert len({*second, *third}) == len(second) + len(third), "two living ones got the same"
    assert len({*dead}) == len(dead)
    assert len({*dead} & {*second, *third}) <= HELD_MAX, "more came again than it held"


@pytest.mark.parametrize("front", ALL)
def test_all_who_have_an_index_of_their_own_get_everything_though_one_is_killed(
    node: RunningNode, consumers: StartConsumers, front: str, name: str
) -> None:
    """A3, A5: one dies by kill -9, is away for 10,000 messages, comes back and misses none."""
    create(node, name)
    own = consumers(front, "own")
    publish(node, name, range(1_000))
    for number in range(CONSUMERS):
        own.start(number, name)
    own.wait(lambda: len(own.processed(0)) > 300)
    own.kill(0)
    total = 1_000 + AWAY
    publish(node, name, range(1_000, total))
    own.start(0, name)
    own.wait(lambda: all(len({*own.processed(n)}) == total for n in range(CONSUMERS)))
    assert own.processed(1) == own.processed(2) == [*range(total)]
    back = own.processed(0)
    assert len(back) - total <= HELD_MAX, "it began anew, rather than where it was"
    again = next((at for at in range(1, len(back)) if back[at] != back[at - 1] + 1), len(back))
    assert back == [*range(again), *range(back[again] if again < len(back) else again, total)]


GARBAGE = [
    b"\x00" * 64,
    b"\xff" * 4096,
    b"GET / HTTP/1.1\r\n\r\n" * 3,
    b"PRODUCER\n",
    bytes(range(256)) * 300,
    *(random.Random(seed).randbytes(2_000) for seed in range(12)),
]


def test_garbage_on_any_port_harms_nobody(node: RunningNode, name: str) -> None:
    """C10: only the connection that sent it ends."""
    create(node, name)
    before = node.log.read_text().count("Traceback")
    for port in ports_of(node).values():
        for sent in GARBAGE:
            for cut in (len(sent), 13):
                with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as client:
                    client.sendall(sent[:cut])
                    client.shutdown(socket.SHUT_WR)
                    drain(client)
    publish(node, name, range(10))
    for front in TOGETHER:
        wanted = Wanted(ports_of(node), name, f"{name}-{front}", "own", "nowhere")
        with closing(subscriber_of(front)(wanted)) as subscriber:
            found = subscriber.messages()
            assert [int(next(found)[1]) for _ in range(10)] == [*range(10)], front
    assert node.log.read_text().count("Traceback") == before, "garbage raised an error of ours"


def drain(client: socket.socket) -> None:
    """Read until the node hangs up."""
    try:
        while client.recv(MIB):
            pass
    except ConnectionResetError:
        pass


@pytest.mark.parametrize("front", READERS)
def test_a_reader_that_stands_still_costs_little_and_stops_nobody(
    own_node: RunningNode, tmp_path: Path, front: str
) -> None:
    """B5, C11: its place in the log is its buffer; the memory of the node stays bounded."""
    large = "x" * 64_000
    body = {"name": "slow", "partitions": 1, "settings": {"flush": "os"}}
    assert httpx.post(f"{own_node.http}/v1/topics", json=body, timeout=60).status_code == 201
    producer = Producer({"bootstrap.servers": own_node.bootstrap})

    def load(first: int) -> None:
        for number in range(first, first + 1_000):
            producer.produce("slow", f"{number}:{large}".encode())
            producer.poll(0)
        assert producer.flush(TIMEOUT_S) == 0

    load(0)
    ports = ports_of(own_node)
    before = own_node.resident_bytes()
    with ExitStack() as stack:

        def subscribe(name: str) -> Subscriber:
            wanted = Wanted(ports, "slow", name, "own", str(tmp_path / name))
            return stack.enter_context(closing(subscriber_of(front)(wanted)))

        for number in range(STILL):
            subscribe(f"still-{number}")
        reader = subscribe("reader")
        load(1_000)
        for number, (token, value) in zip(range(2_000), reader.messages(), strict=False):
            assert value.startswith(b"%d:" % number)
            reader.processed(token)
        assert own_node.resident_bytes() - before < 128 * MIB
