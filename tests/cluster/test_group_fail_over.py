"""Proves on three processes that groups go on, and lose no commit, when their coordinator goes."""

import signal
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.cluster.running_cluster import RunningCluster, until
from tests.cluster.test_fail_over import admin, create

PARTITIONS = 2
MESSAGES = 400
GROUP = "readers"
SETTINGS = {
    "group.id": GROUP,
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "session.timeout.ms": 6_000,
    "socket.timeout.ms": 10_000,
    "reconnect.backoff.max.ms": 500,
    "log_level": 0,
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RunningCluster]:
    with RunningCluster(tmp_path) as running:
        yield running


def coordinator(cluster: RunningCluster) -> int:
    """Return the node that looks after the group; -1 while there is none."""
    client = admin(cluster)
    [future] = client.describe_consumer_groups([GROUP]).values()
    try:
        return int(future.result(60).coordinator.id)
    except KafkaException:
        return -1


def committed(cluster: RunningCluster, topic: str) -> dict[int, int]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, **SETTINGS})
    places = [TopicPartition(topic, index) for index in range(PARTITIONS)]
    try:
        return {one.partition: one.offset for one in consumer.committed(places, timeout=60)}
    except KafkaException:
        return {}
    finally:
        consumer.close()


class Member(Thread):
    """Reads slowly, commits after each few records, and remembers which commits were answered."""

    def __init__(self, cluster: RunningCluster, topic: str) -> None:
        super().__init__()
        self.seen: set[tuple[int, int]] = set()
        self.acked: dict[int, int] = {}
        self.stopped = Event()
        self._consumer = Consumer({"bootstrap.servers": cluster.bootstrap, **SETTINGS})
        self._consumer.subscribe([topic])

    def run(self) -> None:
        while not self.stopped.is_set():
            for message in self._consumer.consume(5, 0.2):
                if message.error() is None:
                    self.seen.add((message.partition() or 0, message.offset() or 0))
            try:
                for one in self._consumer.commit(asynchronous=False) or []:
                    self.acked[one.partition] = max(self.acked.get(one.partition, 0), one.offset)
            except KafkaException:
                pass  # nothing new, or the coordinator is gone; the next commit says it all again
        self._consumer.close()


def test_a_group_goes_on_when_its_coordinator_is_killed(cluster: RunningCluster) -> None:
    """C13, X5: all is read, and what was committed stays so with the next coordinator."""
    create(cluster, "orders", PARTITIONS)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for number in range(MESSAGES):
        producer.produce("orders", str(number), partition=number % PARTITIONS)
    assert producer.flush(60) == 0
    members = [Member(cluster, "orders") for _ in range(2)]
    for member in members:
        member.start()
    try:
        until(lambda: sum(len(member.acked) for member in members) >= PARTITIONS, 60)
        first = coordinator(cluster)
        cluster.nodes[first].kill9()
        everything = {(p, o) for p in range(PARTITIONS) for o in range(MESSAGES // PARTITIONS)}
        until(lambda: set.union(*(member.seen for member in members)) == everything, 60)
        until(lambda: coordinator(cluster) not in (first, -1), 60)
        ends = dict.fromkeys(range(PARTITIONS), MESSAGES // PARTITIONS)
        until(lambda: committed(cluster, "orders") == ends, 60)
    finally:
        for member in members:
            member.stopped.set()
        for member in members:
            member.join()
    for member in members:
        assert all(offset <= ends[index] for index, offset in member.acked.items())


@pytest.mark.slow
def test_a_commit_that_copies_do_not_get_is_answered_all_the_same(cluster: RunningCluster) -> None:
    """C13: the client learns in time that the outcome is not known, and may commit again."""
    create(cluster, "orders", PARTITIONS)
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, **SETTINGS})
    place = TopicPartition("orders", 0, 7)
    consumer.assign([place])
    until(lambda: consumer.commit(offsets=[place], asynchronous=False), 60)
    others = [node for number, node in cluster.nodes.items() if number != coordinator(cluster)]
    for node in others:
        node.send_signal(signal.SIGSTOP)
    try:
        place.offset = 8
        with pytest.raises(KafkaException):
            consumer.commit(offsets=[place], asynchronous=False)
    finally:
        for node in others:
            node.send_signal(signal.SIGCONT)

    def commits() -> bool:
        try:
            return bool(consumer.commit(offsets=[place], asynchronous=False))
        except KafkaException:
            return False

    until(commits, 60)
    assert committed(cluster, "orders")[0] == 8
    consumer.close()
