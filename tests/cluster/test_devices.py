"""Devices in a cluster: one node looks after them, another one when it is gone."""

import time
from pathlib import Path

import httpx

from tests.cluster.running_cluster import RunningCluster
from tests.running_node import RunningNode

SETTINGS = {"broker.default.replication.factor": "3"}
PATIENCE_S = 60.0


def desire(node: RunningNode, field: str, version: int) -> httpx.Response:
    """Change a shadow at any node, as often as it takes until one answers."""
    change = {"state": {"desired": {field: version}}, "version": version}
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            url = f"{node.http}/v1/devices/d7/shadow"
            answer = httpx.patch(url, json=change, timeout=PATIENCE_S)
        except httpx.TransportError as fault:
            answer = httpx.Response(503, text=str(fault))
        is_answered = answer.status_code < 500 and not answer.is_redirect
        if is_answered or time.monotonic() > deadline:
            return answer
        time.sleep(0.1)  # until somebody leads


def test_another_node_looks_after_devices_when_one_is_gone(tmp_path: Path) -> None:
    """E9, C1: any node can be asked; kill -9 of the one that serves loses nothing."""
    with RunningCluster(tmp_path, count=3, settings=SETTINGS) as cluster:
        for version, node in enumerate(cluster.nodes.values()):
            answer = desire(node, f"n{version}", version)
            assert (answer.status_code, answer.json()["version"]) == (200, version + 1)
        for node in cluster.nodes.values():
            assert httpx.get(f"{node.http}/v1/devices/d7", timeout=60).status_code == 200
        log = httpx.get(f"{cluster.nodes[1].http}/v1/topics/__devices", timeout=60).json()
        serving = log["partitions"][0]["leader"]
        cluster.nodes[serving].kill9()
        left = next(node for number, node in cluster.nodes.items() if number != serving)
        answer = desire(left, "after", 3)
        assert answer.status_code == 200
        assert answer.json()["state"]["desired"] == {"n0": 0, "n1": 1, "n2": 2, "after": 3}
