"""Proves on three processes that exactly-once processing survives the loss of any of them."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.cluster.running_cluster import RunningCluster, until
from tests.cluster.test_fail_over import admin, create, in_sync, leader

COUNT = 1_500
PARTITIONS = 3
BATCH = 50
PATIENCE_S = 90


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RunningCluster]:
    with RunningCluster(tmp_path) as running:
        yield running


def settings(cluster: RunningCluster, **more: object) -> dict[str, object]:
    return {"bootstrap.servers": cluster.bootstrap, "log_level": 0} | {
        name.replace("_", "."): value for name, value in more.items()
    }


class Copier:
    """Copies topic `in` to topic `out`, each batch and its offsets in one transaction."""

    def __init__(self, cluster: RunningCluster) -> None:
        self.copied = 0
        self._cluster = cluster
        self._consumer = Consumer(
            settings(
                cluster,
                group_id="copier",
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                isolation_level="read_committed",
                session_timeout_ms=6000,
            )
        )
        self._consumer.subscribe(["in"])
        self._producer = self._new_producer()

    def _new_producer(self) -> Producer:
        producer = Producer(settings(self._cluster, transactional_id="copier"))
        producer.init_transactions(60)
        return producer

    def copy_some(self) -> None:
        """Copy what there is in one transaction; whatever fails is done again from the start."""
        messages = self._consumer.consume(BATCH, 0.5)
        if not messages or any(message.error() for message in messages):
            return
        try:
            self._producer.begin_transaction()
            for message in messages:
                self._producer.produce("out", message.value(), partition=message.partition() or 0)
            self._producer.send_offsets_to_transaction(
                self._consumer.position(self._consumer.assignment()),
                self._consumer.consumer_group_metadata(),
                60,
            )
            self._producer.commit_transaction(60)
            self.copied += len(messages)
        except KafkaException as error:
            self._begin_anew(error)

    def _begin_anew(self, error: KafkaException) -> None:
        fault = error.args[0]
        if fault.txn_requires_abort():
            self._producer.abort_transaction(60)
        else:
            self._producer = self._new_producer()
        assigned = {place.partition for place in self._consumer.assignment()}
        places = [TopicPartition("in", index) for index in range(PARTITIONS)]
        ends = {place.partition: place for place in self._consumer.committed(places, timeout=60)}
        self.copied = 0  # what has failed may have been done all the same
        for partition, place in ends.items():
            place.offset = max(place.offset, 0)
            self.copied += place.offset
            if partition in assigned:
                self._consumer.seek(place)

    def close(self) -> None:
        self._consumer.close()


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
    [future] = client.describe_consumer_groups(["copier"]).values()
    node = future.result(60).coordinator
    assert node is not None
    return int(node.id)


def copy_all(cluster: RunningCluster, victims: list[str]) -> None:
    create(cluster, "in", PARTITIONS)
    create(cluster, "out", PARTITIONS)
    fill(cluster)
    copier = Copier(cluster)
    marks = [COUNT * number // (len(victims) + 1) for number in range(1, len(victims) + 1)]
    deadline = time.monotonic() + PATIENCE_S
    killed: int | None = None
    while copier.copied < COUNT:
        assert time.monotonic() < deadline, f"{copier.copied} copied"
        copier.copy_some()
        if marks and copier.copied >= marks[0]:
            del marks[0]
            if killed is not None:
                cluster.nodes[killed].start()
                until(lambda: len(in_sync(cluster, "out")) == 3)
            victim = victims.pop(0)
            killed = coordinator(cluster) if victim == "coordinator" else leader(cluster, victim)
            cluster.nodes[killed].kill9()
    copier.close()
    assert sorted(copied(cluster)) == list(range(COUNT))


def test_a_killed_coordinator_neither_loses_nor_repeats_a_record(cluster: RunningCluster) -> None:
    """C3, C13: groups, offsets and transactions fail over with the partitions of their logs."""
    copy_all(cluster, ["coordinator"])


@pytest.mark.slow
def test_any_node_may_be_killed_while_transactions_go_on(cluster: RunningCluster) -> None:
    """C3, C13, X5: coordinators and leaders in turn."""
    copy_all(cluster, ["out", "coordinator", "in"])
