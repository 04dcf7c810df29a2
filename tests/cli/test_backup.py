"""`chordmq backup`: a node that is written to is copied at one moment, and comes back whole."""

import threading
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.cli.command_line import CommandLine
from tests.conftest import StartNode
from tests.running_node import RunningNode
from tests.waiting import wait_until

TOPICS = ("left", "right")
SIZE = 20_000
"""Of a value, so that segments fill soon."""


class Transfers:
    """Writes the same number to two topics in one transaction, and its offset to a group."""

    def __init__(self, bootstrap: str) -> None:
        self.producer = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": "transfers", "linger.ms": 0}
        )
        self.done = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        self.producer.init_transactions()
        while not self._stopped.is_set():
            self.producer.begin_transaction()
            for topic in TOPICS:
                self.producer.produce(topic, str(self.done).ljust(SIZE).encode(), partition=0)
            self.producer.commit_transaction()
            self.done += 1

    def __enter__(self) -> "Transfers":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()


def values(node: RunningNode, topic: str) -> list[int]:
    consumer = Consumer(
        {"bootstrap.servers": node.bootstrap, "group.id": "check", "enable.partition.eof": True,
         "isolation.level": "read_committed"}
    )  # fmt: skip
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    while (message := consumer.poll(60)) is not None and message.error() is None:
        found.append(int(message.value() or b""))
    consumer.close()
    return found


def test_a_backup_of_a_busy_node_shows_one_moment_of_all_its_topics(
    start_node: StartNode, tmp_path: Path
) -> None:
    """X4: transactions are in it as a whole or not at all; what was committed before is there."""
    node = start_node()
    cli = CommandLine(node.bootstrap)
    for topic in TOPICS:
        cli.ok("topics", "create", topic, "--set", "segment.bytes=1048576")
    url = f"--url={node.http}"
    first, second = tmp_path / "first", tmp_path / "second"
    with Transfers(node.bootstrap) as transfers:
        wait_until(lambda: transfers.done >= 100)
        cli.ok("backup", "create", str(first), url)
        before = transfers.done
        wait_until(lambda: transfers.done >= before + 100)
        made = cli.ok("backup", "create", str(second), "--previous", str(first), url, "--json").data
    assert cli.ok("backup", "verify", str(second), "--json").data["bytes"] == made["bytes"]
    shared = [path for path in second.rglob("*.log") if path.stat().st_nlink > 1]
    assert shared, "sealed segments are not copied twice"
    node.stop()
    back = RunningNode(tmp_path / "restored")
    cli.ok("backup", "restore", str(second), "--data-dir", str(tmp_path / "restored" / "data"))
    try:
        back.start()
        # The last transaction may have been decided, and be shown a moment after the start.
        wait_until(lambda: values(back, "left") == values(back, "right"))
        left = values(back, "left")
    finally:
        back.close()
    assert left == list(range(len(left)))
    assert before + 100 <= len(left) <= transfers.done


def test_a_stopped_node_is_backed_up_by_its_directory(
    start_node: StartNode, tmp_path: Path
) -> None:
    node = start_node()
    cli = CommandLine(node.bootstrap)
    cli.ok("topics", "create", "kept")
    cli.ok("produce", "kept", stdin="one\ntwo\n")
    data = str(node.data)
    busy = cli("backup", "create", str(tmp_path / "b"), "--data-dir", data)
    assert busy.status == 1
    assert "Another node" in busy.err
    node.stop()
    cli.ok("backup", "create", str(tmp_path / "b"), "--data-dir", data)
    back = RunningNode(tmp_path / "restored")
    cli.ok("backup", "restore", str(tmp_path / "b"), "--data-dir", str(tmp_path / "restored/data"))
    try:
        back.start()
        assert CommandLine(back.bootstrap).ok("consume", "kept").lines == ["one", "two"]
    finally:
        back.close()


@pytest.mark.parametrize("command", ["verify", "restore"])
def test_what_is_no_backup_is_said_so(cli: CommandLine, tmp_path: Path, command: str) -> None:
    more = ["--data-dir", str(tmp_path / "data")] if command == "restore" else []
    outcome = cli("backup", command, str(tmp_path), *more)
    assert outcome.status == 1
    assert "it is no backup" in outcome.err
