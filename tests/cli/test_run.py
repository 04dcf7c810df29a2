"""`chordmq run`: a module's functions as a process, which is stopped well and badly."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.cli.command_line import ENVIRONMENT, CommandLine
from tests.running_node import RunningNode

WAIT_S = 60.0
MODULE = """
import os
from chordmq.client.app import ConsumerApp

app = ConsumerApp()

@app.consumer(
    {topic!r}, group={topic!r}, concurrency=3, dead_letter={dead_letter!r}, session_timeout_ms=6000
)
def note(message):
    if message.value == b"bad":
        raise ValueError("bad")
    with open("seen.txt", "ab", buffering=0) as file:
        file.write(b"%s %s\\n" % (message.key, message.value))
"""


class Process:
    """The application of a directory, started again and again."""

    def __init__(self, directory: Path, node: RunningNode) -> None:
        self.directory = directory
        self._command = [sys.executable, "-m", "chordmq", "--bootstrap", node.bootstrap]
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(
            [*self._command, "run", "noting:app"], cwd=self.directory, env=ENVIRONMENT,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def end(self, number: signal.Signals) -> tuple[int, str]:
        assert self._process is not None
        self._process.send_signal(number)
        return self.wait()

    def wait(self) -> tuple[int, str]:
        assert self._process is not None
        _, err = self._process.communicate(timeout=WAIT_S)
        status, self._process = self._process.returncode, None
        return status, err

    def close(self) -> None:
        if self._process is not None:
            self.end(signal.SIGKILL)

    def seen(self) -> list[tuple[bytes, int]]:
        file = self.directory / "seen.txt"
        lines = file.read_bytes().splitlines(keepends=True) if file.exists() else []
        pairs = [line.split() for line in lines if line.endswith(b"\n")]
        return [(key, int(value)) for key, value in pairs]

    def wait_for(self, count: int) -> None:
        deadline = time.monotonic() + WAIT_S
        while len({value for _, value in self.seen()}) < count:
            assert time.monotonic() < deadline, f"{len(self.seen())} of {count}"
            time.sleep(0.02)


@pytest.fixture
def process(tmp_path: Path, node: RunningNode) -> Iterator[Process]:
    process = Process(tmp_path, node)
    yield process
    process.close()


def write(process: Process, topic: str, dead_letter: str) -> None:
    text = MODULE.format(topic=topic, dead_letter=dead_letter)
    (process.directory / "noting.py").write_text(text)


def test_no_message_is_lost_though_the_application_is_killed(
    process: Process, node: RunningNode, cli: CommandLine, name: str
) -> None:
    """D10: at least once, in the order of each key; a good stop repeats nothing."""
    count = 3_000
    cli.ok("topics", "create", name, "--partitions", "3")
    write(process, name, f"{name}.dlq")
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for number in range(count):
        producer.produce(name, b"%d" % number, key=b"%d" % (number % 20))
        producer.poll(0)
    producer.flush(WAIT_S)
    process.start()
    process.wait_for(count // 3)
    status, _ = process.end(signal.SIGKILL)
    assert status == -signal.SIGKILL
    process.start()
    process.wait_for(count)
    status, err = process.end(signal.SIGTERM)
    assert status == 0, err
    latest: dict[bytes, int] = {}
    firsts: set[int] = set()
    for key, value in process.seen():
        if value not in firsts:
            assert value > latest.get(key, -1), "the first time each comes in its key's order"
            latest[key] = value
            firsts.add(value)
    assert firsts == set(range(count))
    assert cli.ok("groups", "lag", name, "--json").data["total_lag"] == 0


def test_a_message_that_must_not_be_skipped_ends_the_command(
    process: Process, node: RunningNode, cli: CommandLine, name: str
) -> None:
    """D10: with one line that says which and why."""
    cli.ok("topics", "create", name, "--partitions", "1")
    write(process, name, "")
    producer = Producer({"bootstrap.servers": node.bootstrap})
    producer.produce(name, b"bad", key=b"k")
    producer.flush(WAIT_S)
    process.start()
    status, err = process.wait()
    assert status == 1
    assert "ValueError: bad" in err.splitlines()[-1]
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("no_such_module", "No module named"),
        ("json:app", "no ConsumerApp called 'app'"),
        ("json", "no function with @consumer"),
    ],
)
def test_what_is_not_there_is_wrong_usage(cli: CommandLine, place: str, reason: str) -> None:
    path = list(sys.path)
    outcome = cli("run", place)
    sys.path[:] = path
    assert outcome.status == 2
    assert reason in outcome.err
