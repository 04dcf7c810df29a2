"""A node whose program has ended, on real processes with leases that would last for long."""

import json
import urllib.request
from pathlib import Path

import pytest

from tests.cluster.running_cluster import RunningCluster, until
from tests.running_node import RunningNode

LONG = {"cluster.lease_s": "60"}


def living(node: RunningNode) -> set[int]:
    """Return who lives, as a node knows it."""
    with urllib.request.urlopen(f"{node.http}/v1/cluster", timeout=60) as answer:
        return {row["id"] for row in json.load(answer)["nodes"] if row["live"]}


def controller(node: RunningNode) -> set[int]:
    """Return who controls the cluster, as a node knows it."""
    with urllib.request.urlopen(f"{node.http}/v1/cluster", timeout=60) as answer:
        return {row["id"] for row in json.load(answer)["nodes"] if row["controller"]}


@pytest.mark.interop
def test_a_killed_node_is_not_waited_for_until_its_lease_ends(tmp_path: Path) -> None:
    """A9: what a dead node led is led by another at once, though its lease would run on."""
    with RunningCluster(tmp_path, settings=LONG) as cluster:
        until(lambda: living(cluster.nodes[1]) == {1, 2, 3})
        (first,) = until(lambda: controller(cluster.nodes[1]))
        cluster.nodes[first].kill9()
        others = [node for number, node in cluster.nodes.items() if number != first]
        until(lambda: first not in living(others[0]), 30)
        assert until(lambda: controller(others[0])) != {first}
        cluster.nodes[first].start()
        until(lambda: living(others[0]) == {1, 2, 3})
