"""Nodes that join, leave for good, lose their disks, or all crash at once."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.cluster.running_cluster import RunningCluster, until

pytestmark = pytest.mark.slow
MESSAGES = 2000


def partitions(admin: AdminClient, topic: str) -> list[Any]:
    found = admin.list_topics(timeout=60).topics
    return list(found[topic].partitions.values()) if topic in found else []


def produce(cluster: RunningCluster, topic: str) -> None:
    failures: list[Any] = []
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 5, "log_level": 0}
    )
    for number in range(MESSAGES):
        producer.produce(topic, b"%d" % number, on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(60) == 0
    assert set(failures) == {None}


def consumed(cluster: RunningCluster, topic: str) -> set[bytes]:
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "g", "log_level": 0}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: set[bytes] = set()

    def is_done() -> bool:
        for message in consumer.consume(1000, 0.2):
            assert message.error() is None, message.error()
            found.add(message.value() or b"")
        return len(found) >= MESSAGES

    until(is_done)
    consumer.close()
    return found


def test_a_node_that_joins_gets_its_share_and_one_that_is_gone_is_replaced(tmp_path: Path) -> None:
    """A8: no operator is needed, and clients work on; a lost node's copies are made again."""
    settings = {"cluster.rebalance_delay_s": "1", "cluster.moves_max": "8"}
    with RunningCluster(tmp_path, settings=settings) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("t", 12, 3)])["t"].result(60)
        produce(cluster, "t")

        cluster.add(4).start()
        until(lambda: _is_spread(admin, [1, 2, 3, 4]))
        assert consumed(cluster, "t") == {b"%d" % number for number in range(MESSAGES)}

        cluster.nodes[2].kill9()
        shutil.rmtree(cluster.nodes[2].data)
        until(lambda: _is_spread(admin, [1, 3, 4]))
        produce(cluster, "t")

        with pytest.raises(AssertionError, match="the node ended"):
            cluster.nodes[2].start()
        assert "another data directory" in cluster.nodes[2].log.read_text()
        cluster.nodes[2].wait()


def _is_spread(admin: AdminClient, nodes: list[int]) -> bool:
    """Return whether these nodes have all copies of the topic, in sync, and nobody else has any."""
    rows = partitions(admin, "t")
    return {node for row in rows for node in row.replicas} == set(nodes) and all(
        len(row.replicas) == 3 and sorted(row.isrs) == sorted(row.replicas) and row.leader > 0
        for row in rows
    )


def test_all_nodes_killed_at_once_come_back_with_everything(tmp_path: Path) -> None:
    """A9, D5: nobody has to decide anything, and nothing acknowledged is gone."""
    with RunningCluster(tmp_path) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("t", 6, 3, config={"min.insync.replicas": "2"})])["t"].result(
            20
        )
        produce(cluster, "t")

        for node in cluster.nodes.values():
            node.kill9()
        for node in cluster.nodes.values():
            node.start(wait=False)
        for node in cluster.nodes.values():
            node.wait_until_ready()

        assert consumed(cluster, "t") == {b"%d" % number for number in range(MESSAGES)}
        until(lambda: all(len(row.isrs) == 3 for row in partitions(admin, "t")))
        produce(cluster, "t")
