"""Queues and exchanges over HTTP."""

import httpx

from tests.fronts.amqp.client import connected
from tests.running_node import RunningNode


def test_exchanges_are_listed_with_what_is_bound_to_them(node: RunningNode, name: str) -> None:
    """E4, X3: the console can draw how messages go."""
    with connected(node) as channel:
        channel.exchange_declare(name, "topic", durable=True)
        channel.queue_declare(f"{name}.q", exclusive=True)
        channel.queue_bind(f"{name}.q", name, "a.#")
        exchanges = httpx.get(f"{node.http}/v1/exchanges", timeout=60).json()["exchanges"]
        queues = httpx.get(f"{node.http}/v1/queues", timeout=60).json()["queues"]
    mine = next(one for one in exchanges if one["name"] == name)
    assert (mine["type"], mine["durable"], mine["topic"]) == ("topic", True, name)
    bound = {"destination": f"{name}.q", "to_queue": True, "key": "a.#", "arguments": {}}
    assert mine["bindings"] == [bound]
    assert next(one for one in queues if one["name"] == f"{name}.q")["exclusive"]
