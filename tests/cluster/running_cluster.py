"""Several nodes as their users run them, on one etcd: killed, stopped and started by tests."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import TypeVar

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.cluster.etcd_members import EtcdMembers
from tests.running_node import RunningNode, free_port

PATIENCE_S = 60.0
CALM = {"cluster.lease_s": "30"}
"""For nodes that no test ends: a busy machine may keep them from renewing a short lease."""
Result = TypeVar("Result")


class RunningCluster:
    """Nodes 1 to N; their addresses and data stay the same over restarts."""

    def __init__(
        self,
        directory: Path,
        count: int = 3,
        settings: Mapping[str, str] | None = None,
        members: int = 1,
    ) -> None:
        self.etcd = EtcdMembers(directory / "etcd", members)
        self._settings = dict(settings or {})
        self._directory = directory
        self.nodes: dict[int, RunningNode] = {}
        for number in range(1, count + 1):
            self.add(number)

    def __enter__(self) -> "RunningCluster":
        try:
            self.etcd.__enter__()
            for node in self.nodes.values():
                node.start(wait=False)
            for node in self.nodes.values():
                node.wait_until_ready()
            until(lambda: all(self._is_complete(node) for node in self.nodes.values()))
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _is_complete(self, node: RunningNode) -> bool:
        """Return whether a node knows that all nodes live."""
        try:
            with urllib.request.urlopen(f"{node.http}/v1/cluster", timeout=5) as answer:
                rows = json.load(answer)["nodes"]
        except urllib.error.HTTPError as refusal:
            return refusal.code == HTTPStatus.UNAUTHORIZED  # where one has to log in, nobody looks
        except OSError:
            return False
        return {row["id"] for row in rows if row["live"]} == set(self.nodes)

    def add(self, number: int) -> RunningNode:
        """Prepare one more node; it is not started."""
        own = {
            "cluster.store": "etcd",
            "cluster.endpoints": ",".join(self.etcd.endpoints),
            "cluster.lease_s": "2",
            "broker.node.id": str(number),
            "broker.default.replication.factor": "3",
            "peer.port": str(free_port()),
        }
        node = RunningNode(self._directory / f"node{number}", own | self._settings)
        self.nodes[number] = node
        return node

    @property
    def bootstrap(self) -> str:
        """Return the Kafka addresses of all nodes, as clients want them."""
        return ",".join(node.bootstrap for node in self.nodes.values())

    def close(self) -> None:
        """End all processes, whatever their state."""
        for node in self.nodes.values():
            node.close()
        self.etcd.close()


def place(cluster: RunningCluster, topic: str, assignment: list[list[int]]) -> None:
    """Make a topic whose partitions are on chosen nodes, and return when all nodes know it."""
    settings = {"retention.ms": "-1", "min.insync.replicas": "1"}
    count = len(assignment)
    wanted = NewTopic(topic, count, replica_assignment=assignment, config=settings)
    client = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    client.create_topics([wanted])[topic].result(PATIENCE_S)
    until(lambda: all(node.answers(f"/v1/topics/{topic}") for node in cluster.nodes.values()))


def until(wanted: Callable[[], Result], patience_s: float = PATIENCE_S) -> Result:
    """Return the first true result; fail if none comes in time."""
    deadline = time.monotonic() + patience_s
    while not (result := wanted()):
        assert time.monotonic() < deadline, "it did not come to be in time"
        time.sleep(0.02)
    return result
