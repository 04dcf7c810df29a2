"""Who may do what over the procedure-call fronts: logins, ACLs, quotas, revoked rights, topics."""

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.fronts.rpc.clients import Doors
from tests.fronts.rpc.contract import Login, Refused, Row
from tests.running_node import RunningNode
from tests.secured_node import secured_node

PASSWORDS = {"admin": "wise-and-old", "alice": "wonderland-9"}
ADMIN = Login(user="admin", password=PASSWORDS["admin"])
ALICE = Login(user="alice", password=PASSWORDS["alice"])


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    """Give a node where clients log in; `admin` may do everything, `alice` nothing."""
    with secured_node(tmp_path_factory.mktemp("secure"), PASSWORDS) as node:
        yield node


async def call(node: RunningNode, user: str, method: str, path: str, **more: Any) -> Any:
    async with httpx.AsyncClient(
        base_url=node.http, auth=(user, PASSWORDS[user]), timeout=60
    ) as http:
        answer = await http.request(method, path, **more)
    assert answer.status_code < 300, answer.text
    return answer.json() if answer.content else None


def rules(*wanted: tuple[str, str, str]) -> dict[str, Any]:
    return {
        "acls": [
            {"kind": kind, "name": name, "principal": "User:alice", "operation": operation}
            for kind, name, operation in wanted
        ]
    }


async def test_a_password_or_a_token_opens_the_door(secure: RunningNode, door: Doors) -> None:
    """E5: nothing else does."""
    made = await call(secure, "admin", "POST", "/v1/users/admin/tokens", json={"label": "rpc"})
    for login in (ADMIN, Login(token=made["token"])):
        assert isinstance(await (await door.open(secure, login)).topics(), list)
    wrong = Login(user="admin", password="guess"), Login(token="chordmq-nothing"), Login()
    for login in wrong:
        with pytest.raises(Refused) as refusal:
            await door.open(secure, login)
        assert refusal.value.error == "AuthenticationFailed"


async def test_everything_is_denied_that_is_not_allowed(
    secure: RunningNode, name: str, door: Doors
) -> None:
    """A10: topics, groups and the cluster, by the same ACLs as everywhere."""
    admin, alice = await door.open(secure, ADMIN), await door.open(secure, ALICE)
    await admin.create_topic(name)
    await admin.publish(name, [Row(b"v")])
    for attempt in (
        alice.publish(name, [Row(b"v")]),
        alice.stream(name, [[Row(b"v")]]),
        alice.subscribe(name),
        alice.subscribe(name, shared="group"),
        alice.delete_topic(name),
        alice.end_offsets(name),
    ):
        with pytest.raises(Refused) as refusal:
            await attempt
        assert refusal.value.error == "TopicAccessDenied"
    with pytest.raises(Refused, match="TopicAccessDenied"):
        await alice.create_topic(f"{name}-2")
    assert name not in await alice.topics()
    allowed = rules(("topic", name, "read"), ("topic", name, "write"))
    await call(secure, "admin", "POST", "/v1/acls", json=allowed)
    assert await alice.publish(name, [Row(b"w")]) == [(0, 1)]
    assert len(await (await alice.subscribe(name)).take(2)) == 2
    with pytest.raises(Refused) as refusal:
        await alice.subscribe(name, shared=f"{name}-group")
    assert refusal.value.error == "GroupAccessDenied"
    with pytest.raises(Refused) as refusal:
        await alice.commit(f"{name}-group", name, "0:1")
    assert refusal.value.error == "GroupAccessDenied"


async def test_a_right_that_is_withdrawn_ends_the_subscription(
    secure: RunningNode, name: str, door: Doors
) -> None:
    admin, alice = await door.open(secure, ADMIN), await door.open(secure, ALICE)
    await admin.create_topic(name)
    allowed = rules(("topic", name, "read"))
    await call(secure, "admin", "POST", "/v1/acls", json=allowed)
    subscription = await alice.subscribe(name)
    await admin.publish(name, [Row(b"v")])
    await subscription.take(1)
    await call(secure, "admin", "DELETE", "/v1/acls", params=allowed["acls"][0])
    assert (await subscription.ended()).error == "TopicAccessDenied"


async def test_a_revoked_token_ends_what_it_had_opened(
    secure: RunningNode, name: str, door: Doors
) -> None:
    made = await call(secure, "admin", "POST", "/v1/users/admin/tokens", json={"label": "short"})
    client = await door.open(secure, Login(token=made["token"]))
    await client.create_topic(name)
    subscription = await client.subscribe(name)
    await call(secure, "admin", "DELETE", f"/v1/users/admin/tokens/{made['id']}")
    if door.front == "grpc":
        assert (await subscription.ended()).error == "AuthenticationFailed"
    with pytest.raises(Refused):
        await client.topics()


async def test_who_is_connected_can_be_seen(secure: RunningNode, name: str, door: Doors) -> None:
    client = await door.open(secure, ADMIN._replace(client=name))
    await client.create_topic(name)
    await client.subscribe(name)
    clients = (await call(secure, "admin", "GET", "/v1/clients"))["clients"]
    (found,) = [one for one in clients if one["name"] == name]
    assert (found["protocol"], found["user"]) == (door.front, "admin")
    assert found["subscriptions"] == [name]


async def test_a_client_above_its_quota_waits(secure: RunningNode, name: str, door: Doors) -> None:
    """The same quotas as for Kafka's clients, by user and client id."""
    client = await door.open(secure, ADMIN._replace(client=name))
    await client.create_topic(name)
    quota = {"client": name, "limits": {"producer_byte_rate": 100_000}}
    await call(secure, "admin", "PUT", "/v1/quotas", json=quota)
    loop = asyncio.get_running_loop()
    began = loop.time()
    for _ in range(3):
        await client.publish(name, [Row(b"x" * 60_000)])
    assert loop.time() - began > 0.7


async def test_topics_are_made_listed_described_and_deleted(
    node: RunningNode, name: str, door: Doors
) -> None:
    """A4: with retention of their own."""
    client = await door.open(node)
    assert await client.create_topic(name, 2, **{"retention.ms": "60000"}) == 2
    async with httpx.AsyncClient(timeout=60) as http:
        topic = (await http.get(f"{node.http}/v1/topics/{name}")).json()
    assert topic["settings"] == {"retention.ms": "60000"}
    await client.publish(name, [Row(b"v", partition=1)])
    assert await client.end_offsets(name) == [0, 1]
    assert name in await client.topics()
    with pytest.raises(Refused) as refusal:
        await client.create_topic(name)
    assert refusal.value.error == "TopicExists"
    with pytest.raises(Refused) as refusal:
        await client.create_topic(f"{name}-2", 1, **{"retention.ms": "soon"})
    assert refusal.value.error == "InvalidSetting"
    await client.delete_topic(name)
    with pytest.raises(Refused) as refusal:
        await client.end_offsets(name)
    assert refusal.value.error == "UnknownTopic"


async def test_a_named_index_keeps_its_place_over_a_crash(
    own_node: RunningNode, name: str, door: Doors
) -> None:
    """A5: what was committed survives kill -9."""
    client = await door.open(own_node)
    await client.create_topic(name, 2)
    await client.publish(name, [Row(b"v", partition=number % 2) for number in range(8)])
    assert await client.committed("index", name) == ""
    await client.commit("index", name, "0:3,1:2")
    await asyncio.to_thread(own_node.restart)
    again = await door.open(own_node)
    assert await again.committed("index", name) == "0:3,1:2"
    with pytest.raises(Refused, match="InvalidRequest"):
        await again.commit("index", name, "nonsense")
    with pytest.raises(Refused, match="UnknownTopic"):
        await again.commit("index", name, "7:0")
