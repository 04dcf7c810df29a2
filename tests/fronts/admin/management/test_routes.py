"""RabbitMQ's management API: with RabbitMQ's own program, and what it answers to plain requests."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.fronts.amqp.client import connected, publish, take, wait_for
from tests.fronts.amqp1.client import opened
from tests.running_node import RunningNode

ADMIN = "/usr/bin/rabbitmqadmin"


class Management:
    """The API of a node, plainly and through rabbitmqadmin."""

    def __init__(self, node: RunningNode) -> None:
        self._node = node
        self.http = httpx.Client(base_url=f"{node.http}/api", auth=("guest", "guest"), timeout=60)

    def __call__(self, *arguments: str) -> str:
        """Run rabbitmqadmin and return what it prints."""
        host, port = self._node.http_address
        command = [ADMIN, "--host", host, "--port", str(port), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def rows(self, what: str) -> list[dict[str, Any]]:
        """Return what rabbitmqadmin lists."""
        found: list[dict[str, Any]] = json.loads(self("--format", "raw_json", "list", what))
        return found


@pytest.fixture
def management(node: RunningNode) -> Iterator[Management]:
    """Give the API of the shared node."""
    found = Management(node)
    with found.http:
        yield found


def named(rows: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """Return the row of a name."""
    return next(row for row in rows if row["name"] == name)


def test_rabbitmqadmin_declares_publishes_gets_and_deletes(
    management: Management, node: RunningNode, name: str, tmp_path: Path
) -> None:
    """E4: RabbitMQ's own program, unmodified."""
    management("declare", "exchange", f"name={name}", "type=topic")
    arguments = '{"x-max-length": 10}'
    management("declare", "queue", f"name={name}-q", f"arguments={arguments}")
    management("declare", "binding", f"source={name}", f"destination={name}-q", "routing_key=a.#")
    said = management("publish", f"exchange={name}", "routing_key=a.b", "payload=hello")
    assert said == "Message published\n"
    said = management("publish", f"exchange={name}", "routing_key=none", "payload=hello")
    assert "NOT routed" in said
    with connected(node) as channel:
        wait_for(channel, f"{name}-q", 1)
    found = json.loads(management("--format", "raw_json", "get", f"queue={name}-q"))
    assert [(one["payload"], one["routing_key"]) for one in found] == [("hello", "a.b")]
    queue = named(management.rows("queues"), f"{name}-q")
    assert (queue["messages"], queue["arguments"]) == (1, {"x-max-length": 10})
    definitions = tmp_path / "definitions.json"
    management("export", str(definitions))
    management(
        "delete", "binding", f"source={name}", "destination_type=queue",
        f"destination={name}-q", "properties_key=a.#",
    )  # fmt: skip
    management("purge", "queue", f"name={name}-q")
    management("delete", "queue", f"name={name}-q")
    management("delete", "exchange", f"name={name}")
    assert name not in json.dumps(management.rows("exchanges"))
    kept = json.loads(definitions.read_text())
    for kind in ("exchanges", "queues", "bindings"):
        kept[kind] = [one for one in kept[kind] if name in json.dumps(one)]
    definitions.write_text(json.dumps(kept))
    management("import", str(definitions))
    assert named(management.rows("queues"), f"{name}-q")["messages"] == 0
    bound = [one for one in management.rows("bindings") if one["source"] == name]
    assert [one["routing_key"] for one in bound] == ["a.#"]


def test_the_first_who_asks_for_queues_may_declare_one(tmp_path: Path) -> None:
    """E4: queues are loaded with their first client, who waits for that."""
    node = RunningNode(tmp_path)
    try:
        node.start()
        with httpx.Client(base_url=f"{node.http}/api", auth=("guest", "guest"), timeout=60) as http:
            assert http.put("/queues/%2F/first", json={}).status_code == 201
    finally:
        node.close()


def test_who_is_connected_and_consumes_is_listed(
    management: Management, node: RunningNode, name: str
) -> None:
    with connected(node) as channel, opened(node, container_id=name) as newer:
        channel.queue_declare(name, durable=True)
        channel.basic_consume(name, lambda *_: None, consumer_tag="old")
        newer.create_receiver(f"/queues/{name}", name="new")
        found = [one for one in management.rows("consumers") if one["queue"]["name"] == name]
        assert sorted(one["consumer_tag"] for one in found) == ["new", "old"]
        by_name = {one["name"]: one for one in management.rows("connections")}
        connections = [by_name[one["channel_details"]["connection_name"]] for one in found]
        assert {one["protocol"] for one in connections} == {"AMQP 0-9-1", "AMQP 1-0"}
        assert all(one["channels"] == 1 for one in connections)
        numbered = [one["connection_details"]["name"] for one in management.rows("channels")]
        assert all(one["name"] in numbered for one in connections)
        assert named(management.rows("queues"), name)["consumers"] == 2


def test_the_node_says_what_it_is(management: Management) -> None:
    overview = management.http.get("/overview").json()
    assert overview["product_name"] == "ChordMQ"
    assert overview["object_totals"]["exchanges"] >= 6
    assert management.http.get("/whoami").json()["tags"] == ["administrator"]
    assert [one["name"] for one in management.rows("vhosts")] == ["/"]
    assert management.rows("nodes")[0]["running"]
    assert management.http.get("/aliveness-test/%2F").json() == {"status": "ok"}


def test_names_may_have_slashes(management: Management, name: str) -> None:
    path = f"/queues/%2F/{quote(name + '/ü', safe='')}"
    assert management.http.put(path, json={}).status_code == 201
    assert management.http.put(path, json={"durable": True}).status_code == 201
    assert management.http.get(path).json()["name"] == f"{name}/ü"
    assert management.http.get(f"{path}/bindings").json()[0]["routing_key"] == f"{name}/ü"
    assert management.http.delete(path).status_code == 204
    assert management.http.get(path).status_code == 404


def test_messages_are_given_as_they_are(
    management: Management, node: RunningNode, name: str
) -> None:
    management.http.put(f"/queues/%2F/{name}", json={}).raise_for_status()
    message = {
        "routing_key": name,
        "payload": "/wD/",
        "payload_encoding": "base64",
        "properties": {"delivery_mode": 2, "type": "t", "headers": {"a": 1}, "priority": 3},
    }
    path = "/exchanges/%2F/amq.default/publish"
    assert management.http.post(path, json=message).json() == {"routed": True}
    with connected(node) as channel:
        wait_for(channel, name, 1)
        for ackmode in ("reject_requeue_true", "ack_requeue_false"):
            wanted = {"count": 1, "ackmode": ackmode, "encoding": "auto"}
            (found,) = management.http.post(f"/queues/%2F/{name}/get", json=wanted).json()
            assert (found["payload"], found["payload_encoding"]) == ("/wD/", "base64")
            assert found["properties"] == message["properties"]
        publish(channel, "", name, "x")
        assert take(channel, name, 1) == [("x", False)]


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/nothing", None, 404),
        ("GET", "/queues/none/q", None, 404),
        ("GET", "/queues/%2F/none", None, 404),
        ("DELETE", "/queues/%2F/none", None, 404),
        ("POST", "/queues/%2F/none", None, 405),
        ("PUT", "/queues/%2F/amq.own", {}, 400),
        ("PUT", "/exchanges/%2F/x", {"type": "none"}, 400),
        ("PUT", "/exchanges/%2F/amq.topic", {"type": "fanout"}, 400),
        ("DELETE", "/exchanges/%2F/amq.topic", None, 400),
        ("PUT", "/queues/%2F/x", {"arguments": {"x-max-length": "no"}}, 400),
        ("PUT", "/vhosts/none", {}, 400),
        ("POST", "/bindings/%2F/e/none/q/none", {}, 404),
        ("DELETE", "/bindings/%2F/e/amq.topic/q/none/~", None, 404),
        ("POST", "/exchanges/%2F/amq.topic/publish", {"routing_key": "a"}, 400),
        ("POST", "/definitions", {"queues": [{"name": "q"}]}, 400),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_reason(
    management: Management, method: str, path: str, body: Any, status: int
) -> None:
    answer = management.http.request(method, path, json=body)
    assert answer.status_code == status
    assert answer.json()["reason"]
