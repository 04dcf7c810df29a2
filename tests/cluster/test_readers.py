"""Proves with WebSocket clients that readers on any node miss and repeat nothing when nodes go."""

from pathlib import Path

import httpx
import pytest
from confluent_kafka import Producer

from tests.cluster.following import Following, has
from tests.cluster.running_cluster import RunningCluster, place, until
from tests.wire import Wire

ALTER_PARTITION_REASSIGNMENTS = 45


class Numbers:
    """Produces numbers, one after the other; each is in the log once."""

    def __init__(self, cluster: RunningCluster, topic: str) -> None:
        self.count = 0
        self._topic = topic
        settings = {"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True}
        self._producer = Producer(settings | {"linger.ms": 1, "log_level": 0})

    def send(self, count: int) -> None:
        for _ in range(count):
            self._producer.produce(self._topic, str(self.count).encode(), partition=0)
            self.count += 1
            self._producer.poll(0)

    def flush(self) -> None:
        assert self._producer.flush(60) == 0


def test_a_leader_that_is_killed_costs_no_reader_a_record(tmp_path: Path) -> None:
    """A4, A7: nothing is missed and nothing repeated, also by a consumer that moves meanwhile."""
    with RunningCluster(tmp_path) as cluster:
        place(cluster, "numbers", [[1, 2]])
        numbers = Numbers(cluster, "numbers")
        at_copy, without, mover = (Following(cluster.nodes[node], "numbers") for node in (2, 3, 3))
        followers = (at_copy, without, mover)
        try:
            numbers.send(500)
            for follower in followers:
                until(has(follower, 100))
            mover.move(cluster.nodes[2])
            numbers.send(500)
            cluster.nodes[1].kill9()
            numbers.send(500)
            mover.move(cluster.nodes[3])
            numbers.flush()
            for follower in followers:
                until(has(follower, numbers.count), 60)
        finally:
            for follower in followers:
                follower.close()
        for follower in followers:
            assert follower.values == list(range(numbers.count))
            assert follower.others == []


def test_a_copy_that_comes_and_goes_ends_no_subscription(tmp_path: Path) -> None:
    """A8: partitions move between nodes while clients go on reading there."""
    with RunningCluster(tmp_path) as cluster:
        place(cluster, "moving", [[1]])
        numbers = Numbers(cluster, "moving")
        follower = Following(cluster.nodes[3], "moving")
        try:
            for replicas in ([3, 1], [3], [2]):
                numbers.send(200)
                move(cluster, "moving", replicas)
            numbers.send(200)
            numbers.flush()
            until(has(follower, numbers.count), 60)
        finally:
            follower.close()
        assert follower.values == list(range(numbers.count))
        assert follower.others == []


def move(cluster: RunningCluster, topic: str, replicas: list[int]) -> None:
    """Have a partition on other nodes, and return when it is there."""
    partitions = [{"partition_index": 0, "replicas": replicas}]
    with Wire(cluster.nodes[1].address) as wire:
        topics = [{"name": topic, "partitions": partitions}]
        wire.call(ALTER_PARTITION_REASSIGNMENTS, 0, topics=topics)

    def is_there() -> bool:
        [row] = httpx.get(f"{cluster.nodes[1].http}/v1/topics/{topic}", timeout=60).json()[
            "partitions"
        ]
        return sorted(row["replicas"]) == sorted(row["in_sync"]) == sorted(replicas)

    until(is_there)


@pytest.mark.slow
def test_new_records_of_a_popular_partition_come_to_each_node_once(tmp_path: Path) -> None:
    """A7: the leader pushes them along the finger table, and nobody asks it for them."""
    settings = {"cluster.popular_readers": "2"}
    with RunningCluster(tmp_path, settings=settings) as cluster:
        place(cluster, "popular", [[2]])
        numbers = Numbers(cluster, "popular")
        followers = [Following(cluster.nodes[node], "popular") for node in (1, 1, 3, 3)]
        leader = cluster.nodes[2]
        try:
            until(lambda: leader.metric("chordmq_popular_partitions"))
            while not leader.metric("chordmq_pushes_sent_total"):
                numbers.send(1)
                numbers.flush()
            for _ in range(50):
                numbers.send(10)
                numbers.flush()
            for follower in followers:
                until(has(follower, numbers.count))
        finally:
            for follower in followers:
                follower.close()
        for follower in followers:
            assert follower.values == list(range(numbers.count))
        sent = leader.metric("chordmq_pushes_sent_total")
        taken = [cluster.nodes[node].metric("chordmq_pushes_taken_total") for node in (1, 3)]
        assert 0 < max(taken) <= sent
        assert min(taken) > 0
