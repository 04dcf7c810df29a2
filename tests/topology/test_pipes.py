"""Chains of real nodes: everything arrives once and in order, whoever is killed meanwhile."""

import json
import time
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

from tests.conftest import StartNode
from tests.running_node import RunningNode
from tests.topology.conftest import StartRegistry
from tests.topology.running_registry import RunningRegistry

PATIENCE_S = 60.0


def call(node: RunningNode, method: str, path: str, body: object = None) -> Any:
    request = urllib.request.Request(
        node.http + path,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read() or b"null")


def publish(node: RunningNode, topic: str, numbers: range) -> None:
    for start in range(numbers.start, numbers.stop, 50):
        part = range(start, min(start + 50, numbers.stop))
        call(node, "POST", f"/v1/topics/{topic}/records",
             [{"value": str(one), "partition": one % 2} for one in part])  # fmt: skip


def read(node: RunningNode, topic: str) -> dict[int, list[int]]:
    """Return all values of a topic by partition, in the order of the log."""
    found: dict[int, list[int]] = {0: [], 1: []}
    position = "earliest"
    while True:
        answer = call(
            node, "GET", f"/v1/topics/{topic}/records?max_records=10000&position={position}"
        )
        if not answer["records"]:
            return found
        position = answer["position"]
        for one in answer["records"]:
            found[one["partition"]].append(int(one["value"]))


def until(check: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            if check():
                return
        except OSError:
            pass
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def arrived(node: RunningNode, topic: str, count: int) -> bool:
    return sum(map(len, read(node, topic).values())) >= count


def in_order(count: int) -> dict[int, list[int]]:
    return {0: list(range(0, count, 2)), 1: list(range(1, count, 2))}


def placed(registry: str, node: str, role: str, **more: str) -> Mapping[str, str]:
    settings = {"registry": registry, "node": node, "role": role, "topics": "orders.*", **more}
    return {
        **{f"pipes.{name}": text for name, text in settings.items()},
        "pipes.topics_interval_s": "1",
    }


def await_place(registry: RunningRegistry, *nodes: str) -> None:
    """Wait until nodes have their place: who comes later may then be given to them."""
    until(lambda: {*nodes} <= {*registry.call("GET", "/v1/topology")[1]["nodes"]}, "registered")


def test_three_levels_deliver_everything_once_and_in_order_whoever_dies(
    start_node: StartNode, start_registry: StartRegistry
) -> None:
    """D12, D11: kill -9 of the middle node and of the registry, while records flow."""
    registry = start_registry()
    root = start_node(placed(registry.url, "root", "ROOT"))
    middle = start_node(placed(registry.url, "middle", "L2"))
    await_place(registry, "root", "middle")
    leaf = start_node(placed(registry.url, "leaf", "POS", topics="orders"))
    call(root, "POST", "/v1/topics", {"name": "orders", "partitions": 2})
    call(root, "POST", "/v1/topics", {"name": "other", "partitions": 1})
    publish(root, "orders", range(500))
    until(lambda: arrived(leaf, "orders", 500), "the first records arrive at the leaf")
    assert call(leaf, "GET", "/v1/pipes")["pipes"][0]["source"] == "middle"
    registry.kill9()
    publish(root, "orders", range(500, 700))
    middle.kill9()
    publish(root, "orders", range(700, 1000))
    middle.start()
    publish(root, "orders", range(1000, 1500))
    until(lambda: arrived(leaf, "orders", 1000), "the middle works on without a registry")
    middle.restart()
    leaf.restart()
    registry.start()
    publish(root, "orders", range(1500, 2000))
    until(lambda: arrived(leaf, "orders", 2000), "everything arrives")
    for node in (middle, leaf):
        assert read(node, "orders") == in_order(2000)
        assert [one["name"] for one in call(node, "GET", "/v1/topics")["topics"]] == ["orders"]
    until(lambda: leaf.metric("chordmq_pipes_lag") == 0, "the lag goes to 0")
    until(
        lambda: call(leaf, "GET", "/v1/topology")["nodes"]["leaf"]["parent"] == "middle",
        "the leaf knows its place",
    )


def test_a_child_of_a_dead_parent_goes_on_with_another(
    start_node: StartNode, start_registry: StartRegistry
) -> None:
    """D12: fail-over without loss or repetition; records of a child go up and do not come back."""
    registry = start_registry("--dead-after", "5")
    root = start_node(placed(registry.url, "root", "ROOT", upstream="up"))
    first = start_node(placed(registry.url, "a", "L2", upstream="up"))
    start_node(placed(registry.url, "b", "L2", upstream="up"))
    await_place(registry, "root", "a", "b")
    leaf = start_node(placed(registry.url, "leaf", "POS", topics="orders,up"))
    call(root, "POST", "/v1/topics", {"name": "orders", "partitions": 2})
    call(leaf, "POST", "/v1/topics", {"name": "up", "partitions": 2})
    publish(root, "orders", range(300))
    publish(leaf, "up", range(100))
    until(lambda: arrived(leaf, "orders", 300), "the records arrive")
    until(lambda: arrived(root, "up", 100), "the records of the leaf go up")
    assert call(leaf, "GET", "/v1/pipes")["pipes"][0]["source"] == "a"
    first.kill9()
    publish(root, "orders", range(300, 600))
    publish(leaf, "up", range(100, 200))
    until(lambda: arrived(leaf, "orders", 600), "the other parent brings the rest")
    until(lambda: arrived(root, "up", 200), "the rest goes up by another way")
    assert read(leaf, "orders") == in_order(600)
    assert read(root, "up") == in_order(200)
    assert read(leaf, "up") == in_order(200)
