"""Proves that workers at any node share one index, and that it outlives the node that keeps it."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from tests.cluster.running_cluster import RunningCluster, place, until
from tests.running_node import RunningNode

PATIENCE_S = 60
QUIET_S = 0.5
TOO_LATE = ("InvalidRecordState", "CoordinatorNotAvailable")
"""What a worker hears that settles a message while another node begins to keep the cursor."""


class Worker:
    """A client that shares a topic with others; it holds one message at a time."""

    def __init__(self, socket: ClientConnection, topic: str) -> None:
        self._socket = socket
        self._topic = topic
        self._early: dict[str, Any] = {}
        wanted = {"type": "subscribe", "id": 1, "topic": topic, "group": "workers"}
        socket.send(json.dumps(wanted | {"start": "earliest", "credit": 1}))
        while self._told(PATIENCE_S)["type"] != "subscribed":
            pass

    def take(self, timeout_s: float = PATIENCE_S) -> dict[str, Any]:
        """Return the next message; an answer that came too late for the last one is let be."""
        while (told := self._early or self._told(timeout_s))["type"] != "records":
            assert told["type"] != "error" or told["error"] in TOO_LATE, told
        self._early = {}
        [record] = told["records"]
        return dict(record)

    def accept(self, record: dict[str, Any]) -> None:
        """Say that a message is done."""
        place = {key: record[key] for key in ("partition", "offset")}
        self._socket.send(json.dumps({"type": "ack", "id": 1, "topic": self._topic} | place))

    def accepted(self, record: dict[str, Any]) -> None:
        """Say that a message is done, and wait until that is in the log."""
        self.accept(record)
        while (told := self._told(PATIENCE_S))["type"] != "acknowledged":
            assert told["type"] == "records", told
            self._early = told

    def _told(self, timeout_s: float) -> dict[str, Any]:
        return dict(json.loads(self._socket.recv(timeout_s)))


@contextmanager
def worker(node: RunningNode, topic: str) -> Iterator[Worker]:
    url = f"ws://127.0.0.1:{node.http_address[1]}/ws"
    with connect(url, subprotocols=[Subprotocol("chordmq.json")], open_timeout=60) as socket:
        yield Worker(socket, topic)


def publish(node: RunningNode, topic: str, *values: str) -> None:
    body = [{"value": value} for value in values]
    answer = httpx.post(f"{node.http}/v1/topics/{topic}/records", json=body, timeout=PATIENCE_S)
    assert answer.status_code == 200, answer.text


def test_workers_at_three_nodes_share_what_one_node_keeps(calm_cluster: RunningCluster) -> None:
    """A4, C11: each message goes to one of them, wherever it works."""
    place(calm_cluster, "jobs", [[2], [2]])
    with ExitStack() as stack:
        workers = [stack.enter_context(worker(n, "jobs")) for n in calm_cluster.nodes.values()]
        publish(calm_cluster.nodes[1], "jobs", "a", "b", "c")
        held = [one.take() for one in workers]
        assert sorted(record["value"] for record in held) == ["a", "b", "c"]
        for one, record in zip(workers, held, strict=True):
            one.accept(record)
        publish(calm_cluster.nodes[3], "jobs", "d", "e", "f")
        again = [one.take() for one in workers]
        assert sorted(record["value"] for record in again) == ["d", "e", "f"]


def test_what_a_worker_leaves_behind_goes_to_others_at_other_nodes(
    calm_cluster: RunningCluster,
) -> None:
    """C11: a client that goes gives its messages back, also to the cursor of another node."""
    place(calm_cluster, "left", [[2]])
    publish(calm_cluster.nodes[1], "left", "a")
    with worker(calm_cluster.nodes[3], "left") as first:
        assert first.take()["deliveries"] == 1
    with worker(calm_cluster.nodes[1], "left") as second:
        found = second.take()
        assert (found["value"], found["deliveries"]) == ("a", 2)


def test_http_consumers_take_at_one_node_and_settle_at_another(
    calm_cluster: RunningCluster,
) -> None:
    """C11: behind a load balancer any node may get the next request."""
    place(calm_cluster, "balanced", [[2]])
    publish(calm_cluster.nodes[2], "balanced", "a", "b", "c")
    one, three = (f"{calm_cluster.nodes[n].http}/v1/topics/balanced/cursors/g" for n in (1, 3))
    wanted = {"consumer": "x", "max_records": 2}
    took = httpx.post(f"{one}/take", json=wanted, timeout=PATIENCE_S).json()["records"]
    assert [row["record"]["value"] for row in took] == ["a", "b"]
    answers = [{"partition": 0, "first": 0, "last": 1}]
    settled = {"consumer": "x", "answers": answers}
    assert httpx.post(f"{three}/settle", json=settled, timeout=PATIENCE_S).status_code == 204
    again = httpx.post(f"{one}/settle", json=settled, timeout=PATIENCE_S)
    assert (again.status_code, again.json()["error"]) == (409, "InvalidRecordState")
    rest = httpx.post(f"{three}/take", json={"consumer": "y"}, timeout=PATIENCE_S)
    assert [row["record"]["value"] for row in rest.json()["records"]] == ["c"]


def test_dead_letters_go_to_whoever_leads_their_topic(calm_cluster: RunningCluster) -> None:
    """C11: the cursor is kept at one node, the letters at another."""
    place(calm_cluster, "poison", [[2]])
    place(calm_cluster, "poison.dlq", [[3]])
    node = calm_cluster.nodes[1]
    _configure(node, "burying", {"errors.deadletterqueue.topic.name": "{topic}.dlq"})
    publish(node, "poison", "bad")
    path = f"{node.http}/v1/topics/poison/cursors/burying"
    taken = httpx.post(f"{path}/take", json={"consumer": "x"}, timeout=PATIENCE_S).json()
    assert [row["record"]["value"] for row in taken["records"]] == ["bad"]
    answers = [{"partition": 0, "first": 0, "last": 0, "outcome": "reject"}]
    settled = {"consumer": "x", "answers": answers}
    answer = httpx.post(f"{path}/settle", json=settled, timeout=PATIENCE_S)
    assert answer.status_code == 204, answer.text
    letters = httpx.get(f"{node.http}/v1/topics/poison.dlq/records", timeout=PATIENCE_S).json()
    assert [record["value"] for record in letters["records"]] == ["bad"]


def _configure(node: RunningNode, group: str, settings: dict[str, str]) -> None:
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in settings.items()
    ]
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(PATIENCE_S)


def test_a_cursor_goes_on_at_the_next_leader_and_consumers_of_dead_nodes_leave(
    tmp_path: Path,
) -> None:
    """C11, A9: what was settled never comes again; what a dead node's consumer held comes soon."""
    with RunningCluster(tmp_path) as cluster:
        place(cluster, "jobs", [[1, 2]])
        publish(cluster.nodes[3], "jobs", "a", "b", "c", "d")
        with worker(cluster.nodes[3], "jobs") as survivor:
            survivor.accepted(survivor.take())
            with worker(cluster.nodes[1], "jobs") as dying:
                record = survivor.take()
                assert {record["value"], dying.take()["value"]} == {"b", "c"}
                cluster.nodes[1].kill9()
            survivor.accept(record)
            found = {record["value"]}
            while found < {"b", "c", "d"}:
                record = survivor.take()
                found.add(record["value"])
                survivor.accept(record)
            assert found == {"b", "c", "d"}, "what was settled has not come again"
            until(lambda: is_done(cluster.nodes[2], "jobs"))


def is_done(node: RunningNode, topic: str) -> bool:
    """Return whether a new worker finds nothing to do."""
    with worker(node, topic) as one:
        try:
            one.accept(one.take(QUIET_S))
        except TimeoutError:
            return True
        return False
