"""The registry over HTTP, as a process: registration, long polls, tokens, crashes."""

import subprocess
import sys
import threading
import time

from openapi_spec_validator import validate

from tests.topology.conftest import StartRegistry

NODE = {"url": "http://127.0.0.1:1"}


def test_nodes_register_are_refused_with_the_reason_and_survive_a_crash(
    start_registry: StartRegistry,
) -> None:
    """D11: registration, roles and parents, kept over kill -9."""
    registry = start_registry()
    registry.call("PUT", "/v1/nodes/root", {**NODE, "role": "ROOT"})
    status, tree = registry.call("PUT", "/v1/nodes/shop", {**NODE, "role": "POS"})
    assert status == 200
    assert tree["nodes"]["shop"]["parent"] == "root"
    status, why = registry.call("PUT", "/v1/nodes/other", {**NODE, "role": "ROOT"})
    assert (status, why["error"]) == (409, "TopologyRefused")
    assert "two roots" in why["message"]
    status, why = registry.call("PUT", "/v1/nodes/shop/pin", {"parent": "nobody"})
    assert status == 409
    assert "unknown parent nobody" in why["message"]
    status, why = registry.call("PUT", "/v1/nodes/bad", {"url": 7})
    assert status == 400
    registry.kill9()
    registry.start()
    _, again = registry.call("GET", "/v1/topology")
    assert again["version"] == tree["version"]
    assert again["nodes"]["shop"]["parent"] == "root"
    validate(registry.call("GET", "/openapi.json")[1])
    shown = subprocess.run(
        [sys.executable, "-m", "chordmq", "topology", "show", "--registry", registry.url],
        capture_output=True, text=True, timeout=60, check=True,
    ).stdout  # fmt: skip
    assert "root (ROOT)" in shown
    assert "└─ shop (POS) http://127.0.0.1:1 HEALTHY, lag 0" in shown


def test_a_long_poll_is_answered_the_moment_the_tree_changes(
    start_registry: StartRegistry,
) -> None:
    """D11: a change is heard of long before the poll's time is over."""
    registry = start_registry()
    _, tree = registry.call("PUT", "/v1/nodes/root", NODE)
    etag = f'"{tree["version"]}"'
    assert registry.call("GET", "/v1/topology", if_none_match=etag)[0] == 304
    heard: list[int] = []

    def follow() -> None:
        heard.append(registry.call("GET", "/v1/topology?wait_s=60", if_none_match=etag)[0])

    waiting = threading.Thread(target=follow)
    waiting.start()
    registry.call("PUT", "/v1/nodes/shop", NODE)
    waiting.join(60)
    assert heard == [200], "304 would say that nothing has changed"


def test_tokens_are_asked_for(start_registry: StartRegistry) -> None:
    """D11: nodes and operators prove who they are."""
    registry = start_registry("--token", "nodes", "--operator-token", "boss")
    assert registry.call("PUT", "/v1/nodes/root", NODE)[0] == 401
    assert registry.call("GET", "/v1/topology")[0] == 401
    assert registry.call("PUT", "/v1/nodes/root", NODE, authorization="Bearer nodes")[0] == 200
    assert registry.call("DELETE", "/v1/nodes/root", authorization="Bearer nodes")[0] == 401
    assert registry.call("DELETE", "/v1/nodes/root", authorization="Bearer boss")[0] == 200


def test_a_silent_node_is_declared_dead_and_its_children_move(
    start_registry: StartRegistry,
) -> None:
    """D11: dead nodes, and reassignment when a parent dies."""
    registry = start_registry("--dead-after", "4")
    for name, role in (("root", "ROOT"), ("x", "L2"), ("y", "L2"), ("leaf", "POS")):
        registry.call("PUT", f"/v1/nodes/{name}", {**NODE, "role": role})
    deadline = time.monotonic() + 60
    while True:
        for name, role in (("root", "ROOT"), ("y", "L2"), ("leaf", "POS")):
            registry.call("PUT", f"/v1/nodes/{name}", {**NODE, "role": role})
        _, tree = registry.call("GET", "/v1/topology")
        if tree["nodes"]["leaf"]["parent"] == "y":
            break
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert not tree["nodes"]["x"]["alive"]
