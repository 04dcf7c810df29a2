"""Proves that any node answers over HTTP for the whole cluster."""

from collections.abc import Iterator
from contextlib import ExitStack
from http import HTTPStatus

import httpx
import pytest

from tests.cluster.running_cluster import CALM, RunningCluster, place

PATIENCE_S = 60


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with RunningCluster(tmp_path_factory.mktemp("http"), settings=CALM) as running:
        place(running, "spread", [[1], [2], [3]])
        yield running


@pytest.fixture(scope="module")
def nodes(cluster: RunningCluster) -> Iterator[list[httpx.Client]]:
    """Yield a client of each node that follows no redirect, after some have published."""
    with ExitStack() as stack:
        clients = [
            stack.enter_context(httpx.Client(base_url=node.http, timeout=PATIENCE_S))
            for node in cluster.nodes.values()
        ]
        for number in range(30):
            body = {"value": str(number), "partition": number % 3}
            assert clients[number % 2].post("/v1/topics/spread/records", json=body).is_success
        yield clients


def test_records_of_partitions_on_all_nodes_are_read_at_once(nodes: list[httpx.Client]) -> None:
    """A4: no node holds all of them, and each answers."""
    for node in nodes:
        found = node.get("/v1/topics/spread/records").json()
        assert sorted(int(one["value"]) for one in found["records"]) == list(range(30))
        assert found["position"] == found["end"] == "0:10,1:10,2:10"
        latest = node.get("/v1/topics/spread/records?position=latest").json()
        assert (latest["records"], latest["position"]) == ([], "0:10,1:10,2:10")


def test_a_topic_is_described_alike_everywhere(nodes: list[httpx.Client]) -> None:
    first, *others = (node.get("/v1/topics/spread").json()["partitions"] for node in nodes)
    assert [(row["start_offset"], row["end_offset"]) for row in first] == [(0, 10)] * 3
    assert all(row["size_bytes"] > 0 for row in first)
    for other in others:
        assert [row | {"held": 0} for row in other] == [row | {"held": 0} for row in first]


def test_offsets_that_no_log_has_are_refused_everywhere(nodes: list[httpx.Client]) -> None:
    for node in nodes:
        answer = node.get("/v1/topics/spread/records?partition=1&offset=1000")
        assert answer.status_code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE


def test_groups_are_kept_shown_and_moved_at_any_node(nodes: list[httpx.Client]) -> None:
    """C8: the first commit of a new cluster works, and every node lists the groups of all."""
    names = [f"group-{number}" for number in range(6)]
    for number, name in enumerate(names):
        row = {"topic": "spread", "partition": 1, "offset": number}
        answer = nodes[number % 3].put(f"/v1/groups/{name}/offsets", json={"offsets": [row]})
        assert answer.status_code == HTTPStatus.NO_CONTENT, answer.text
    for node in nodes:
        listed = node.get("/v1/groups").json()["groups"]
        assert [one["group"] for one in listed] == names
        assert node.get("/v1/cluster").json()["groups"] == len(names)
        for number, name in enumerate(names):
            assert node.get(f"/v1/groups/{name}").json()["state"] == "Empty"
            assert node.get(f"/v1/groups/{name}/lag").json()["total_lag"] == 10 - number
    moved = nodes[0].post(
        "/v1/groups/group-1/offsets", json={"topic": "spread", "to": "latest", "execute": True}
    )
    assert [row["to"] for row in moved.json()["partitions"]] == [10, 10, 10]
    for node in nodes:
        found = node.get("/v1/topics/spread/records?group=group-1").json()
        assert (found["records"], found["position"]) == ([], "0:10,1:10,2:10")
    assert nodes[2].delete("/v1/groups/group-5").status_code == HTTPStatus.NO_CONTENT
    assert nodes[1].get("/v1/groups/group-5").status_code == HTTPStatus.NOT_FOUND


def test_what_is_deleted_at_one_node_is_gone_at_all(
    cluster: RunningCluster, nodes: list[httpx.Client]
) -> None:
    """C14: also where its records were read before."""
    place(cluster, "trimmed", [[2]])
    for value in "abc":
        nodes[0].post("/v1/topics/trimmed/records", json={"value": value})
    assert len(nodes[2].get("/v1/topics/trimmed/records").json()["records"]) == 3
    dropped = nodes[0].delete("/v1/topics/trimmed/records?partition=0&before=2")
    assert dropped.json() == {"partition": 0, "start_offset": 2}
    for node in nodes:
        found = node.get("/v1/topics/trimmed/records").json()["records"]
        assert [one["value"] for one in found] == ["c"]
        refused = node.get("/v1/topics/trimmed/records?partition=0&offset=0")
        assert refused.status_code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE
