"""Real clusters of three nodes as parent and as child: nodes die, nothing is lost or repeated."""

from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.cluster.running_cluster import RunningCluster
from tests.running_node import RunningNode
from tests.topology.reading import numbers_by_partition
from tests.topology.test_pipes import call, until

COUNT = 3000
TOPIC = "orders"


def urls(cluster: RunningCluster) -> str:
    return ",".join(node.http for node in cluster.nodes.values())


def producer(bootstrap: str) -> Producer:
    return Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 2,
            "batch.num.messages": 50,
            "retry.backoff.ms": 50,
            "reconnect.backoff.max.ms": 500,
            "log_level": 0,
        }
    )


def write(sender: Producer, numbers: range) -> None:
    for number in numbers:
        sender.produce(TOPIC, b"%d" % number, partition=number % 2)
        sender.poll(0)


def values(bootstrap: str) -> dict[int, list[int]]:
    return numbers_by_partition(bootstrap, TOPIC)


def has_all(node: RunningNode) -> bool:
    rows = call(node, "GET", f"/v1/topics/{TOPIC}")["partitions"]
    return bool(sum(row["end_offset"] for row in rows) >= COUNT)


def expected() -> dict[int, list[int]]:
    return {index: list(range(index, COUNT, 2)) for index in (0, 1)}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_pipe_survives_kill_9_of_any_node_of_its_parent(tmp_path: Path) -> None:
    """D12, A9: the parent is a cluster; its leaders die while records flow."""
    with RunningCluster(tmp_path / "cluster") as parent:
        first = next(iter(parent.nodes.values()))
        call(first, "POST", "/v1/topics", {"name": TOPIC, "partitions": 2,
                                           "settings": {"min.insync.replicas": "2"}})  # fmt: skip
        child = RunningNode(
            tmp_path / "child",
            {"pipes.parent": urls(parent), "pipes.topics": TOPIC, "pipes.topics_interval_s": "1"},
        )
        try:
            child.start()
            sender = producer(parent.bootstrap)
            step = COUNT // 3
            for number, node in enumerate(parent.nodes.values()):
                write(sender, range(number * step, number * step + step // 2))
                node.kill9()
                write(sender, range(number * step + step // 2, (number + 1) * step))
                assert sender.flush(60) == 0
                node.start()
            until(lambda: has_all(child), "everything is copied")
            assert values(child.bootstrap) == expected()
        finally:
            child.close()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_cluster_as_child_goes_on_with_whichever_node_leads(tmp_path: Path) -> None:
    """D12, A9: another node takes over and knows from its copy of the log what is there."""
    root = RunningNode(tmp_path / "root")
    root.start()
    try:
        call(root, "POST", "/v1/topics", {"name": TOPIC, "partitions": 2})
        settings = {
            "pipes.parent": root.http, "pipes.topics": TOPIC, "pipes.topics_interval_s": "1",
            "broker.min.insync.replicas": "2",
        }  # fmt: skip
        with RunningCluster(tmp_path / "cluster", settings=settings) as cluster:
            sender = producer(root.bootstrap)
            step = COUNT // 3
            for number, node in enumerate(cluster.nodes.values()):
                write(sender, range(number * step, number * step + step // 2))
                assert sender.flush(60) == 0
                node.kill9()
                write(sender, range(number * step + step // 2, (number + 1) * step))
                assert sender.flush(60) == 0
                node.start()
            until(
                lambda: sum(map(len, values(cluster.bootstrap).values())) >= COUNT,
                "everything is copied",
            )
            assert values(cluster.bootstrap) == expected()
    finally:
        root.close()
