"""Quotas: a client that sends more than it may is made to wait, and nothing is lost."""

import time

import httpx

from tests.fronts.mqtt.conftest import Connect
from tests.running_node import RunningNode


def test_a_client_above_its_quota_waits(own_node: RunningNode, connect: Connect, name: str) -> None:
    """E6, E13: bytes per second by client id, in by back-pressure."""
    body = {"client": name, "limits": {"producer_byte_rate": 50_000}}
    answer = httpx.put(f"{own_node.http}/v1/quotas", json=body, timeout=60)
    assert answer.status_code < 300, answer.text
    writer = connect(name, to=own_node)
    began = time.monotonic()
    for _ in range(30):
        writer.publish(f"{name}/a", b"x" * 10_000, 1)
    assert time.monotonic() - began > 2
