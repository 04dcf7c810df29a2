"""Proves that idempotent producers go on, without loss or repetition, after too few were in sync.

The first of several batches on their way may be refused with NOT_ENOUGH_REPLICAS, and the next come
when there are enough again. As in Kafka, those are refused as out of order and sent again.
"""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.cluster.running_cluster import RunningCluster, until
from tests.cluster.test_fail_over import Stream, check, create, in_sync, leader, producing, read_all
from tests.cluster.test_rolling_restart import JavaProducer

TIMES = 3

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RunningCluster]:
    with RunningCluster(tmp_path) as running:
        yield running


def part_and_join(cluster: RunningCluster, topic: str) -> None:
    """Stop both followers until they are out of the in-sync set, and let them come back."""
    first = leader(cluster, topic)
    others = [node for number, node in cluster.nodes.items() if number != first]
    client = AdminClient({"bootstrap.servers": cluster.nodes[first].bootstrap, "log_level": 0})
    for node in others:
        node.send_signal(signal.SIGSTOP)
    try:
        until(lambda: len(client.list_topics(topic, 60).topics[topic].partitions[0].isrs) == 1, 60)
    finally:
        for node in others:
            node.send_signal(signal.SIGCONT)
    until(lambda: len(in_sync(cluster, topic)) == 3, 60)


def test_javas_producer_goes_on(cluster: RunningCluster, tmp_path: Path) -> None:
    """C2, X5: Kafka's own producer."""
    create(cluster, "java")
    producer = JavaProducer(cluster, "java", tmp_path / "producer.properties")
    try:
        until(lambda: producer.acked, 60)
        for _ in range(TIMES):
            part_and_join(cluster, "java")
            seen = len(producer.acked)
            until(lambda seen=seen: len(producer.acked) > seen)  # type: ignore[misc]
        producer.stop()
    finally:
        producer.close()
    assert producer.failed == []
    assert producer.acked == list(range(len(producer.acked)))
    assert read_all(cluster, "java") == producer.acked


def test_librdkafkas_producer_goes_on(cluster: RunningCluster) -> None:
    """C2, X5: librdkafka."""
    create(cluster, "rdkafka")
    stream = Stream(cluster, "rdkafka")
    with producing(stream):
        until(lambda: stream.acked, 60)
        for _ in range(TIMES):
            part_and_join(cluster, "rdkafka")
            seen = len(stream.acked)
            until(lambda seen=seen: len(stream.acked) > seen)  # type: ignore[misc]
    check(cluster, stream, "rdkafka")
