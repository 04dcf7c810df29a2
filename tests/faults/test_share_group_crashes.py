"""Share consumers and their broker are killed: nothing is missed, nothing accepted comes again."""

import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from tests.running_node import ROOT, RunningNode

CONSUMERS = 3
RECORDS = 2000
BROKER_KILLS = 3
DEADLINE_S = 60.0


class ShareConsumer:
    """A consumer in a process of its own, and what it said."""

    def __init__(self, node: RunningNode, group: str, topic: str, log: Path) -> None:
        self.log = log
        host, port = node.address
        with log.open("wb") as out, log.with_suffix(".err").open("wb") as err:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "tests.faults.share_consumer",
                    host,
                    str(port),
                    group,
                    topic,
                ],
                cwd=ROOT,
                stdout=out,
                stderr=err,
            )

    def kill9(self) -> None:
        self._process.kill()
        self._process.wait()

    def said(self, word: str) -> Iterator[tuple[int, int]]:
        """Yield the time and the offset of all that it said with this word."""
        for line in self.log.read_text().splitlines(keepends=True):
            parts = line.split()
            if line.endswith("\n") and parts[0] == word:
                for offset in range(int(parts[2]), int(parts[3]) + 1):
                    yield int(parts[1]), offset


@pytest.fixture
def consumers() -> Iterator[list[ShareConsumer]]:
    running: list[ShareConsumer] = []
    yield running
    for consumer in running:
        consumer.kill9()


def _prepare(node: RunningNode, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result()
    entry = ConfigEntry(
        "share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ResourceType.GROUP, name, incremental_configs=[entry])
    for done in admin.incremental_alter_configs([resource]).values():
        done.result()


def _produce(node: RunningNode, topic: str) -> None:
    """Send every record once, in small batches, through all restarts of the node."""
    settings = {"enable.idempotence": True, "linger.ms": 0, "reconnect.backoff.max.ms": 100}
    producer = Producer({"bootstrap.servers": node.bootstrap, **settings})
    for number in range(RECORDS):
        producer.produce(topic, b"%06d" % number)
        if number % 5 == 0:
            producer.flush(DEADLINE_S)
    assert producer.flush(DEADLINE_S) == 0


def _offsets(consumers: list[ShareConsumer], word: str) -> set[int]:
    return {offset for one in consumers for _, offset in one.said(word)}


def _wait_for(consumers: list[ShareConsumer], word: str, count: int) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while len(_offsets(consumers, word)) < count:
        assert time.monotonic() < deadline, f"not {count} records {word} in time"
        time.sleep(0.02)


def test_nothing_is_missed_and_nothing_accepted_comes_again(
    own_node: RunningNode, name: str, tmp_path: Path, consumers: list[ShareConsumer]
) -> None:
    """A3, A5, C4, D8: kill -9 of a consumer and of the broker, while all are at work."""
    _prepare(own_node, name)
    logs = [tmp_path / f"{number}.log" for number in range(CONSUMERS)]
    consumers.extend(ShareConsumer(own_node, name, name, log) for log in logs)
    with ThreadPoolExecutor(1) as background:
        produced = background.submit(_produce, own_node, name)
        _wait_for(consumers, "kept", RECORDS // 5)
        consumers[0].kill9()
        for part in range(2, 2 + BROKER_KILLS):
            _wait_for(consumers, "kept", RECORDS * part // 5)
            own_node.restart()
        produced.result(DEADLINE_S)
    _wait_for(consumers, "asked", RECORDS)
    _wait_for(consumers, "kept", RECORDS * 9 // 10)
    kept: dict[int, int] = {}
    for one in consumers:
        for time_ns, offset in one.said("kept"):
            assert offset not in kept, f"{offset} was accepted twice"
            kept[offset] = time_ns
    again = [
        offset
        for one in consumers
        for time_ns, offset in one.said("got")
        if time_ns > kept.get(offset, time_ns)
    ]
    assert again == [], "records came again after they were accepted"
