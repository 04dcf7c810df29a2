"""Groups over HTTP, on a real broker and with a real consumer."""

import asyncio
from typing import Any

import httpx
import pytest

from chordmq.broker.broker import Broker
from chordmq.broker.security.acl import Kind, Operation, Rule
from chordmq.client.consumer import Consumer, ConsumerSettings
from chordmq.client.membership import GroupSettings
from tests.running_node import RunningNode

OFFSETS = "/v1/groups/g/offsets"


@pytest.fixture
async def orders(http: httpx.AsyncClient, broker: Broker) -> None:
    await broker.topics.create("orders", 2)
    for n in range(10):
        record = {"value": str(n), "partition": 0, "timestamp": 1_700_000_000_000 + n}
        await http.post("/v1/topics/orders/records", json=record)


async def commit(http: httpx.AsyncClient, offset: int, partition: int = 0) -> httpx.Response:
    row = {"topic": "orders", "partition": partition, "offset": offset}
    return await http.put(OFFSETS, json={"offsets": [row]})


async def lag(http: httpx.AsyncClient) -> list[tuple[int, int, int]]:
    rows = (await http.get("/v1/groups/g/lag")).json()["partitions"]
    return [(row["partition"], row["committed"], row["lag"]) for row in rows]


@pytest.mark.usefixtures("orders")
async def test_a_group_is_where_it_committed(http: httpx.AsyncClient) -> None:
    """C4, C17: its own durable index."""
    assert (await http.get("/v1/groups/g")).status_code == 404
    assert (await commit(http, 4)).status_code == 204
    assert await lag(http) == [(0, 4, 6)]
    assert (await http.get("/v1/groups")).json()["groups"] == [
        {"group": "g", "state": "Empty", "protocol_type": "", "members": 0}
    ]
    assert (await http.delete("/v1/groups/g")).status_code == 204
    assert (await http.get("/v1/groups/g/lag")).status_code == 404


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize(
    ("move", "target"),
    [
        ({"to": "earliest"}, 0),
        ({"to": "latest"}, 10),
        ({"to": 7}, 7),
        ({"to": 99}, 10),
        ({"timestamp": 1_700_000_000_003}, 3),
        ({"timestamp": 1_900_000_000_000}, 10),
        ({"shift": -3}, 1),
        ({"shift": 99}, 10),
        ({"topic": "orders", "partitions": [0], "to": 5}, 5),
    ],
)
async def test_offsets_move_only_when_told_to(
    http: httpx.AsyncClient, move: dict[str, Any], target: int
) -> None:
    """C4: a preview says what would change."""
    await commit(http, 4)
    rows = [{"topic": "orders", "partition": 0, "from": 4, "to": target}]
    answer = await http.post(OFFSETS, json=move)
    assert answer.json() == {"group": "g", "executed": False, "partitions": rows}
    assert await lag(http) == [(0, 4, 6)]
    answer = await http.post(OFFSETS, json=move | {"execute": True})
    assert answer.json() == {"group": "g", "executed": True, "partitions": rows}
    assert await lag(http) == [(0, target, 10 - target)]


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize(
    ("move", "status"),
    [
        ({}, 400),
        ({"to": "latest", "shift": 1}, 400),
        ({"to": "middle"}, 400),
        ({"to": "latest"}, 404),
        ({"topic": "none", "to": "latest"}, 404),
        ({"topic": "orders", "partitions": [7], "to": "latest"}, 404),
        ({"partitions": [0], "to": "latest"}, 400),
    ],
)
async def test_a_move_that_makes_no_sense_is_refused(
    http: httpx.AsyncClient, move: dict[str, Any], status: int
) -> None:
    assert (await http.post(OFFSETS, json=move | {"execute": True})).status_code == status


@pytest.mark.usefixtures("orders")
async def test_groups_are_kept_from_whom_acls_do_not_name(
    http: httpx.AsyncClient, broker: Broker
) -> None:
    """C8: group and topic both count."""
    await commit(http, 4)
    broker.permissions.is_enforced = True
    for answer in (
        await http.get("/v1/groups/g"),
        await http.get("/v1/groups/g/lag"),
        await http.delete("/v1/groups/g"),
        await http.post(OFFSETS, json={"to": "latest"}),
        await commit(http, 1),
    ):
        assert (answer.status_code, answer.json()["error"]) == (403, "GroupAccessDenied")
    assert (await http.get("/v1/groups")).json() == {"groups": []}
    rule = Rule(kind=Kind.GROUP, name="g", principal="User:ANONYMOUS", operation=Operation.READ)
    await broker.permissions.add_rules([rule])
    assert (await http.get("/v1/groups/g/lag")).json()["partitions"] == []
    assert (await commit(http, 1)).json()["error"] == "TopicAccessDenied"


async def test_a_group_with_a_consumer_shows_it_and_cannot_be_moved(
    node: RunningNode, name: str
) -> None:
    """C17: what a Kafka consumer does is seen over HTTP."""
    async with httpx.AsyncClient(base_url=node.http, timeout=60) as http:
        await http.post("/v1/topics", json={"name": name, "partitions": 2})
        await http.post(f"/v1/topics/{name}/records", json={"value": "x", "partition": 1})
        settings = ConsumerSettings(group=GroupSettings(group=name))
        async with Consumer(node.bootstrap, settings) as consumer:
            await consumer.subscribe(name)
            async with asyncio.timeout(60):
                await anext(consumer)
            await consumer.commit()
            group = (await http.get(f"/v1/groups/{name}")).json()
            assert group["state"] == "Stable"
            (member,) = group["members"]
            assert [row["partition"] for row in member["partitions"]] == [0, 1]
            rows = (await http.get(f"/v1/groups/{name}/lag")).json()["partitions"]
            assert (rows[-1]["lag"], rows[-1]["member_id"]) == (0, member["member_id"])
            body = {"to": "earliest", "execute": True}
            answer = await http.post(f"/v1/groups/{name}/offsets", json=body)
            assert answer.status_code == 409
            assert (await http.delete(f"/v1/groups/{name}")).status_code == 409
