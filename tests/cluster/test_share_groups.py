"""Proves that share groups go on, with what they have settled, when a node is killed."""

import time
from pathlib import Path

from confluent_kafka import Producer, ShareConsumer

from tests.cluster.running_cluster import RunningCluster
from tests.cluster.test_fail_over import admin, create, leader
from tests.interop.test_share_groups import begin_at_the_beginning

COUNT = 600
PARTITIONS = 3
PATIENCE_S = 60


def take(consumer: ShareConsumer, seen: list[int], wanted: int) -> None:
    """Poll, which settles what came before, until so many different records were seen."""
    deadline = time.monotonic() + PATIENCE_S
    while len(set(seen)) < wanted:
        assert time.monotonic() < deadline, f"{len(set(seen))} of {wanted} came"
        seen += [int(m.value() or b"") for m in consumer.poll(0.5) if m.error() is None]
    consumer.commit_sync(PATIENCE_S)


def test_every_record_comes_and_settled_ones_do_not_come_again(tmp_path: Path) -> None:
    """C4, C13: cursors are read by whoever leads their partition next."""
    with RunningCluster(tmp_path) as cluster:
        create(cluster, "jobs", PARTITIONS)
        begin_at_the_beginning(admin(cluster), "workers")
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "workers", "log_level": 0}
        seen: list[int] = []
        with ShareConsumer(settings) as consumer:
            consumer.subscribe(["jobs"])
            send(producer, range(COUNT // 2))
            take(consumer, seen, COUNT // 2)
        before = set(seen)
        assert sorted(seen) == sorted(before)
        cluster.nodes[leader(cluster, "jobs")].kill9()
        send(producer, range(COUNT // 2, COUNT))
        with ShareConsumer(settings) as consumer:
            consumer.subscribe(["jobs"])
            take(consumer, seen, COUNT)
        again = [number for number in seen[COUNT // 2 :] if number in before]
        assert again == []


def send(producer: Producer, numbers: range) -> None:
    for number in numbers:
        producer.produce("jobs", str(number), partition=number % PARTITIONS)
    assert producer.flush(PATIENCE_S) == 0
