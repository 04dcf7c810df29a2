"""Parts of a node that the configuration chooses: the result is the same with each of them."""

from pathlib import Path

import pytest

from tests.cluster.running_cluster import RunningCluster
from tests.conftest import StartNode
from tests.fronts.provider.client import Client
from tests.running_node import RunningNode
from tests.topology.test_pipes import arrived, call, in_order, publish, read, until


def copying(parent: str) -> dict[str, str]:
    return {"pipes.parent": parent, "pipes.topics": "orders", "pipes.topics_interval_s": "1"}


@pytest.fixture
def root(start_node: StartNode) -> RunningNode:
    node = start_node()
    call(node, "POST", "/v1/topics", {"name": "orders", "partitions": 2})
    publish(node, "orders", range(300))
    return node


def test_storage_network_and_pipe_are_chosen_by_configuration(
    root: RunningNode, start_node: StartNode, tmp_path: Path
) -> None:
    """D1: metadata in SQLite or etcd, a pipe over HTTP or over Kafka's protocol, any front."""
    plain = start_node(copying(root.http))
    other = {
        **copying(f"kafka://{root.bootstrap}"),
        "broker.default.replication.factor": "1",
        "broker.min.insync.replicas": "1",
        "broker.log.memory.retention.ms": "0",  # all reads from files
    }
    with RunningCluster(tmp_path / "etcd", 1, other) as cluster:
        (chosen,) = cluster.nodes.values()
        for node in (plain, chosen):
            until(lambda node=node: arrived(node, "orders", 300), "all is copied")  # type: ignore[misc]
            assert read(node, "orders") == in_order(300)
            with Client(node.provider_address) as client:
                assert client.publish("orders", b"300")
        publish(root, "orders", range(300, 400))
        for node in (plain, chosen):
            until(lambda node=node: arrived(node, "orders", 401), "and goes on")  # type: ignore[misc]
