"""Proves with librdkafka that consumers read from a copy in their own rack (KIP-392)."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.cluster.running_cluster import CALM, RunningCluster
from tests.cluster.test_fail_over import create, leader

COUNT = 500


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RunningCluster]:
    running = RunningCluster(tmp_path, settings=CALM)
    for number, node in running.nodes.items():
        node.settings = node.settings | {"broker.broker.rack": f"rack-{number}"}
    with running:
        yield running


def test_a_consumer_reads_from_the_copy_in_its_rack(cluster: RunningCluster) -> None:
    """C17: the leader names the in-sync copy in the client's rack, and that one serves."""
    create(cluster, "news")
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for number in range(COUNT):
        producer.produce("news", str(number), partition=0)
    assert producer.flush(60) == 0
    first = leader(cluster, "news")
    near = next(number for number in cluster.nodes if number != first)
    served = cluster.nodes[near].metric("chordmq_kafka_bytes_out_total")
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "near",
            "client.rack": f"rack-{near}",
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition("news", 0, 0)])
    found: list[int] = []
    deadline = time.monotonic() + 60
    while len(found) < COUNT and time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            found.append(int(message.value() or b""))
    consumer.close()
    assert found == list(range(COUNT))
    assert cluster.nodes[near].metric("chordmq_kafka_bytes_out_total") - served > COUNT
