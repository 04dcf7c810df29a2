"""Proves on three processes that exactly-once processing survives the loss of any of them."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.cluster.running_cluster import RunningCluster, until
from tests.cluster.test_fail_over import admin, create, in_sync, leader
from tests.faults import transformer

COUNT = 1_500
PARTITIONS = 3
BATCH = 50
SESSION_MS = 6000
PATIENCE_S = 120
TRANSFORMER = Path(transformer.__file__)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RunningCluster]:
    with RunningCluster(tmp_path) as running:
        yield running


def settings(cluster: RunningCluster, **more: object) -> dict[str, object]:
    return {"bootstrap.servers": cluster.bootstrap, "log_level": 0} | {
        name.replace("_", "."): value for name, value in more.items()
    }


class Copier:
    """A process that copies topic `in` to topic `out`, started again whenever it ends.

    It ends if it gets no further: librdkafka may wait for ever for a coordinator that was killed
    just before TxnOffsetCommit, and its successor has to find everything in the log.
    """

    def __init__(self, cluster: RunningCluster, log: Path) -> None:
        self._command = [sys.executable, str(TRANSFORMER), cluster.bootstrap, "in", "out", "0"]
        self._command += [str(BATCH), str(SESSION_MS)]
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._offsets = Consumer(settings(cluster, group_id="in"))

    def has_copied(self, count: int) -> bool:
        """Return whether so many records are copied; see to it that somebody goes on."""
        if self._process is None or self._process.poll() is not None:
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        places = [TopicPartition("in", index) for index in range(PARTITIONS)]
        try:
            ends = self._offsets.committed(places, timeout=5)
        except KafkaException:
            return False  # the coordinator is gone, and its successor not yet known
        return sum(max(place.offset, 0) for place in ends) >= count

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._offsets.close()


def fill(cluster: RunningCluster) -> None:
    producer = Producer(settings(cluster, enable_idempotence=True))
    for number in range(COUNT):
        producer.produce("in", str(number), partition=number % PARTITIONS)
    assert producer.flush(60) == 0


def copied(cluster: RunningCluster) -> list[int]:
    """Return what a reader of committed transactions finds in `out`."""
    consumer = Consumer(settings(cluster, group_id="check", isolation_level="read_committed"))
    consumer.assign([TopicPartition("out", index, 0) for index in range(PARTITIONS)])
    found: list[int] = []
    deadline = time.monotonic() + 60
    while len(found) < COUNT and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            found.append(int(message.value() or b""))
    consumer.close()
    return found


def coordinator(cluster: RunningCluster) -> int:
    """Return the node that looks after the copier's group."""
    client = admin(cluster)
    [future] = client.describe_consumer_groups(["in"]).values()
    node = future.result(60).coordinator
    assert node is not None
    return int(node.id)


def copy_all(cluster: RunningCluster, victims: list[str], log: Path) -> None:
    create(cluster, "in", PARTITIONS)
    create(cluster, "out", PARTITIONS)
    fill(cluster)
    killed: int | None = None
    with closing(Copier(cluster, log)) as copier:
        for number, victim in enumerate(victims, 1):
            mark = COUNT * number // (len(victims) + 1)
            until(partial(copier.has_copied, mark), PATIENCE_S)
            if killed is not None:
                cluster.nodes[killed].start()
                until(lambda: len(in_sync(cluster, "out")) == 3)
            killed = coordinator(cluster) if victim == "coordinator" else leader(cluster, victim)
            cluster.nodes[killed].kill9()
        until(partial(copier.has_copied, COUNT), PATIENCE_S)
    assert sorted(copied(cluster)) == list(range(COUNT))


def test_a_killed_coordinator_neither_loses_nor_repeats_a_record(
    cluster: RunningCluster, tmp_path: Path
) -> None:
    """C3, C13: groups, offsets and transactions fail over with the partitions of their logs."""
    copy_all(cluster, ["coordinator"], tmp_path / "copier.log")


@pytest.mark.slow
def test_any_node_may_be_killed_while_transactions_go_on(
    cluster: RunningCluster, tmp_path: Path
) -> None:
    """C3, C13, X5: coordinators and leaders in turn."""
    copy_all(cluster, ["out", "coordinator", "in"], tmp_path / "copier.log")
