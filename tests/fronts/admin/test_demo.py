"""Simulated devices over HTTP: started once, seen, stopped, and gone with the node."""

import httpx

from tests.conftest import StartNode
from tests.running_node import RunningNode
from tests.waiting import wait_until


def test_devices_are_started_seen_and_stopped(start_node: StartNode) -> None:
    """X3: one request, and there is something to see."""
    node = start_node({"http.demo": "true"})
    with httpx.Client(base_url=node.http, timeout=60) as http:
        assert http.get("/v1/demo").json() == {"running": False, "devices": 0}
        assert http.post("/v1/demo", json={"devices": 3}).json()["running"]
        again = http.post("/v1/demo", json={})
        assert again.status_code == 400
        assert "already" in again.json()["message"]

        def connected() -> int:
            answer = http.get("/v1/devices?connected=true")
            return len(answer.json()["devices"]) if answer.is_success else 0

        wait_until(lambda: connected() == 3)
        assert http.delete("/v1/demo").status_code == 204
        assert http.get("/v1/demo").json() == {"running": False, "devices": 0}
        wait_until(lambda: connected() == 0)
        assert http.delete("/v1/demo").status_code == 204


def test_a_node_that_does_not_want_them_says_so(node: RunningNode) -> None:
    refused = httpx.post(f"{node.http}/v1/demo", json={}, timeout=60)
    assert refused.status_code == 400
    assert "http.demo" in refused.json()["message"]
    assert httpx.post(f"{node.http}/v1/demo", json={"devices": 0}, timeout=60).status_code == 400
