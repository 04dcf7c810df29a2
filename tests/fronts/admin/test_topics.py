"""Topics over HTTP, on a real broker."""

from typing import Any

import httpx
import pytest

from chordmq.broker.broker import Broker
from chordmq.broker.security.acl import Kind, Operation, Rule


async def test_a_topic_lives_from_its_creation_to_its_end(
    http: httpx.AsyncClient, broker: Broker
) -> None:
    """C17: create, show, list, delete."""
    body = {"name": "orders", "partitions": 3, "settings": {"retention.ms": "60000"}}
    answer = await http.post("/v1/topics", json=body)
    assert answer.status_code == 201
    topic = answer.json()
    assert topic["settings"] == {"retention.ms": "60000"}
    assert [row["partition"] for row in topic["partitions"]] == [0, 1, 2]
    assert (await http.get("/v1/topics/orders")).json() == topic
    row = {"name": "orders", "id": topic["id"], "partitions": 3, "internal": False}
    assert (await http.get("/v1/topics")).json() == {"topics": [row]}
    assert (await http.delete("/v1/topics/orders")).status_code == 204
    assert (await http.get("/v1/topics/orders")).status_code == 404
    assert broker.topics.find("orders") is None


async def test_a_topic_without_numbers_gets_those_of_the_node(http: httpx.AsyncClient) -> None:
    answer = await http.post("/v1/topics", json={"name": "plain"})
    assert len(answer.json()["partitions"]) == 2


async def test_a_topic_shows_what_its_partitions_hold(http: httpx.AsyncClient) -> None:
    await http.post("/v1/topics", json={"name": "orders", "partitions": 1})
    await http.post("/v1/topics/orders/records", json=[{"value": "x"}] * 3)
    (row,) = (await http.get("/v1/topics/orders")).json()["partitions"]
    assert (row["start_offset"], row["end_offset"]) == (0, 3)
    assert row["size_bytes"] > 0


async def test_a_topic_grows_and_never_shrinks(http: httpx.AsyncClient) -> None:
    await http.post("/v1/topics", json={"name": "orders", "partitions": 2})
    answer = await http.put("/v1/topics/orders/partitions", json={"count": 4})
    assert len(answer.json()["partitions"]) == 4
    assert (await http.put("/v1/topics/orders/partitions", json={"count": 4})).status_code == 200
    answer = await http.put("/v1/topics/orders/partitions", json={"count": 3})
    assert (answer.status_code, answer.json()["error"]) == (400, "InvalidPartitionCount")


async def test_settings_change_while_the_topic_is_in_use(
    http: httpx.AsyncClient, broker: Broker
) -> None:
    """C17: one by one, and back to the node's with null."""
    await http.post("/v1/topics", json={"name": "orders", "settings": {"retention.ms": "1"}})
    answer = await http.patch("/v1/topics/orders/settings", json={"retention.bytes": "4096"})
    rows = {row["name"]: row for row in answer.json()["settings"]}
    assert (rows["retention.ms"]["value"], rows["retention.ms"]["source"]) == ("1", "topic")
    assert broker.topics.get("orders").settings.retention_bytes == 4096
    await http.patch("/v1/topics/orders/settings", json={"retention.ms": None})
    rows = {
        row["name"]: row
        for row in (await http.get("/v1/topics/orders/settings")).json()["settings"]
    }
    assert rows["retention.ms"]["source"] == "default"
    assert broker.topics.get("orders").overrides == {"retention.bytes": "4096"}


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        ({"name": "a b"}, 400, "InvalidRequest"),
        ({"name": ".."}, 400, "InvalidTopicName"),
        ({"name": "x", "partitions": 0}, 400, "InvalidRequest"),
        ({"name": "x", "replication_factor": 3}, 400, "InvalidReplicationFactor"),
        ({"name": "x", "settings": {"retention.ms": "soon"}}, 400, "InvalidSetting"),
        ({"name": "x", "settings": {"retention": "1"}}, 400, "InvalidSetting"),
        ({"name": "x", "partition": 3}, 400, "InvalidRequest"),
        ({"name": "__consumer_offsets"}, 400, "InvalidRequest"),
        ({"name": "there"}, 409, "TopicExists"),
        ({}, 400, "InvalidRequest"),
    ],
)
async def test_a_topic_that_cannot_be_is_refused(
    http: httpx.AsyncClient, broker: Broker, body: dict[str, Any], status: int, error: str
) -> None:
    await broker.topics.create("there")
    answer = await http.post("/v1/topics", json=body)
    assert (answer.status_code, answer.json()["error"]) == (status, error)
    assert len(broker.topics) == 1


async def test_topics_are_shown_and_changed_only_to_whom_acls_allow_it(
    http: httpx.AsyncClient, broker: Broker
) -> None:
    """C8: who may not describe a topic does not see it."""
    await broker.topics.create("mine")
    await broker.topics.create("other")
    broker.permissions.is_enforced = True
    rule = Rule(kind=Kind.TOPIC, name="mine", principal="User:ANONYMOUS", operation=Operation.ALL)
    await broker.permissions.add_rules([rule])
    assert [row["name"] for row in (await http.get("/v1/topics")).json()["topics"]] == ["mine"]
    assert (await http.get("/v1/topics/mine/settings")).status_code == 200
    for answer in (
        await http.get("/v1/topics/other"),
        await http.get("/v1/topics/none"),
        await http.delete("/v1/topics/other"),
        await http.post("/v1/topics", json={"name": "new"}),
        await http.put("/v1/topics/other/partitions", json={"count": 9}),
        await http.get("/v1/topics/other/settings"),
        await http.patch("/v1/topics/other/settings", json={}),
        await http.get("/v1/cluster"),
    ):
        assert answer.status_code == 403, answer.url
    assert (await http.delete("/v1/topics/mine")).status_code == 204


async def test_the_cluster_says_what_it_holds(http: httpx.AsyncClient, broker: Broker) -> None:
    await broker.topics.create("orders", 3)
    cluster = (await http.get("/v1/cluster")).json()
    assert cluster["id"] == broker.cluster_id
    assert [node["id"] for node in cluster["nodes"]] == [broker.node_id]
    assert (cluster["topics"], cluster["partitions"]) == (1, 3)
