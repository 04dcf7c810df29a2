"""The gateway on a real node: publish, subscribe, resume, share, and what is refused."""

import asyncio
from typing import Any

import httpx
import pytest
from confluent_kafka import Producer

from chordmq.clock import SystemClock
from tests.fronts.websocket.gateway import JSON, MSGPACK, TIMEOUT_S, gateway
from tests.running_node import RunningNode

NOW_MS = SystemClock().now_ms()  # older messages could fall to retention meanwhile


async def call(node: RunningNode, method: str, path: str, **more: Any) -> httpx.Response:
    async with httpx.AsyncClient(base_url=node.http, timeout=60) as http:
        answer = await http.request(method, path, **more)
    assert answer.status_code < 300, answer.text
    return answer


async def create(node: RunningNode, name: str, partitions: int = 1) -> None:
    await call(node, "POST", "/v1/topics", json={"name": name, "partitions": partitions})


async def connected(node: RunningNode) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (await call(node, "GET", "/v1/clients")).json()["clients"]
    return rows


@pytest.mark.parametrize("subprotocol", [JSON, MSGPACK])
async def test_what_is_published_is_pushed_to_every_subscriber(
    node: RunningNode, name: str, subprotocol: str
) -> None:
    """A2, E5: publish with acknowledgement; everybody gets everything."""
    text: Any = str if subprotocol == JSON else str.encode
    async with gateway(node, subprotocol) as one, gateway(node) as other:
        told = await one.publish(name, text("first"), key=text("k"), id=7)
        assert told == {"type": "published", "id": 7, "topic": name, "partition": 0, "offset": 0}
        await one.subscribe(name, start="earliest")
        await other.subscribe(name, start="earliest")
        await one.publish(name, text("second"))
        assert await one.values(2) == [text("first"), text("second")]
        assert await other.values(2) == ["first", "second"]


async def test_many_messages_in_one_read_are_one_batch(node: RunningNode, name: str) -> None:
    async with gateway(node) as client:
        await client.publish(name, "0")
        for number in range(1, 200):
            await client.send("publish", topic=name, value=str(number), id=number)
        offsets = [(await client.next("published"))["offset"] for _ in range(1, 200)]
        assert offsets == list(range(1, 200))


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("earliest", ["a", "b", "c"]),
        ({"offset": 1}, ["b", "c"]),
        ({"timestamp": NOW_MS + 2}, ["b", "c"]),
        ("latest", ["new"]),
    ],
    ids=["earliest", "offset", "timestamp", "latest"],  # the same in all workers
)
async def test_a_subscription_begins_where_it_asks(
    node: RunningNode, name: str, start: Any, expected: list[str]
) -> None:
    """E5: from an offset, a time, the beginning or now."""
    async with gateway(node) as client:
        for number, value in enumerate("abc", start=1):
            await client.publish(name, value, timestamp=NOW_MS + number)
        await client.subscribe(name, start=start)
        await client.publish(name, "new", timestamp=NOW_MS + 9)
        assert await client.values(len(expected)) == expected


async def test_a_client_that_was_away_misses_and_repeats_nothing(
    node: RunningNode, name: str
) -> None:
    """A5, E5: away for 10,000 messages over three partitions, back by position."""
    await create(node, name, partitions=3)
    async with gateway(node) as client:
        await client.subscribe(name)
        await client.publish(name, "seen", key="k")
        assert await client.values(1) == ["seen"]
        positions = client.positions
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for number in range(10_000):
        producer.produce(name, str(number), key=str(number % 50))
    assert producer.flush(60) == 0
    async with gateway(node) as client:
        await client.subscribe(name, positions=positions)
        found = await client.values(10_000)
        assert sorted(map(int, found)) == list(range(10_000))
        await client.publish(name, "last", key="k")
        assert await client.values(1) == ["last"]


async def test_positions_survive_a_crash_of_the_node(own_node: RunningNode, name: str) -> None:
    """A5, E5: kill -9 in the middle of reading; each message arrives once."""
    found: list[str] = []
    async with gateway(own_node) as client:
        for number in range(100):
            await client.publish(name, str(number))
        await client.subscribe(name, start="earliest", credit=40)
        found += await client.values(40)
        positions = client.positions
    own_node.kill9()
    own_node.start()
    async with gateway(own_node) as client:
        await client.subscribe(name, positions=positions)
        found += await client.values(60)
        await client.publish(name, "100")
        found += await client.values(1)
    assert found == [str(number) for number in range(101)]


async def test_filters_read_names_with_levels_also_in_topics_made_later(
    node: RunningNode, name: str
) -> None:
    """E2: wildcards, the order of one device, and what Kafka's producers write."""
    async with gateway(node) as reader, gateway(node) as writer:
        await reader.subscribe(f"{name}/+/+/temperature")
        for number in range(20):
            device = f"d{number % 2}"
            await writer.publish(f"{name}/devices/{device}/temperature", str(number))
            await writer.publish(f"{name}/devices/{device}/humidity", "no")
        records = await reader.take(20)
        assert {record["name"] for record in records} == {
            f"{name}/devices/d0/temperature",
            f"{name}/devices/d1/temperature",
        }
        for device in ("d0", "d1"):
            own = [int(record["value"]) for record in records if record["key"] == device]
            assert own == sorted(own)
            assert len(own) == 10
        await reader.subscribe(f"{name}/devices/d7", id="kafka")
        producer = Producer({"bootstrap.servers": node.bootstrap})
        producer.produce(f"{name}.devices", "from kafka", key="d7")
        assert producer.flush(60) == 0
        assert await reader.values(1) == ["from kafka"]


async def test_partitions_that_are_added_are_read(node: RunningNode, name: str) -> None:
    await create(node, name)
    async with gateway(node) as client:
        await client.subscribe(name)
        await call(node, "PUT", f"/v1/topics/{name}/partitions", json={"count": 2})
        await client.publish(name, "there", partition=1)
        assert await client.values(1) == ["there"]


async def test_members_of_a_group_share_and_the_dead_ones_messages_go_to_others(
    node: RunningNode, name: str
) -> None:
    """A3: each message is processed by exactly one; what one held when it died, by another."""
    await create(node, name)
    async with gateway(node) as writer:
        for number in range(30):
            await writer.publish(name, str(number))
    shared = {"group": f"g-{name}", "start": "earliest", "credit": 10}
    async with gateway(node) as survivor:
        async with gateway(node) as dying:
            await dying.subscribe(name, **shared)
            held = await dying.values(10)
            await survivor.subscribe(name, **shared)
            done = await survivor.take(10)
            assert not set(held) & {record["value"] for record in done}
            dying.socket.transport.abort()
        processed = [record["value"] for record in done]
        while len(processed) < 30:
            for record in done:
                place = {"topic": name, "partition": 0, "offset": record["offset"]}
                await survivor.send("ack", id="s", **place)
            done = await survivor.take(1)
            processed += [record["value"] for record in done]
        again = await survivor.ask(
            "ack", "acknowledged", id="s", topic=name, partition=0, offset=done[0]["offset"]
        )
        assert again["type"] == "acknowledged"
    assert sorted(map(int, processed)) == list(range(30))


async def test_released_messages_come_again_and_bad_answers_are_refused(
    node: RunningNode, name: str
) -> None:
    await create(node, name)
    place = {"id": "s", "topic": name, "partition": 0, "offset": 0}
    async with gateway(node) as client:
        await client.publish(name, "x")
        await client.subscribe(name, group=f"g-{name}", start="earliest")
        (first,) = await client.take(1)
        assert first["deliveries"] == 1
        await client.ask("ack", "acknowledged", outcome="release", **place)
        (again,) = await client.take(1)
        assert again["deliveries"] == 2
        refused = await client.ask("ack", "error", **place | {"last": 9})
        assert refused["error"] == "InvalidRecordState"
        refused = await client.ask("ack", "error", **place | {"offset": 2**62, "last": 2**63 - 1})
        assert refused["error"] == "InvalidRecordState"
        await client.ask("ack", "acknowledged", **place)


async def test_no_more_comes_than_there_is_credit_for(node: RunningNode, name: str) -> None:
    """E5: back-pressure per client."""
    async with gateway(node) as client:
        for number in range(10):
            await client.publish(name, str(number))
        await client.subscribe(name, start="earliest", credit=3)
        assert await client.values(3) == ["0", "1", "2"]
        await client.ask("ping", "pong")
        assert client.records == []
        await client.send("credit", id="s", count=2)
        assert await client.values(2) == ["3", "4"]
        await client.ask("ping", "pong")
        assert client.records == []


async def test_who_chose_to_drop_is_told_how_much(node: RunningNode, name: str) -> None:
    """E5: the count is exact, and what comes after is new."""
    async with gateway(node) as client, gateway(node) as writer:
        await writer.publish(name, "0")
        await client.subscribe(name, start="earliest", credit=1, when_full="drop")
        assert await client.values(1) == ["0"]
        for number in range(1, 6):
            await writer.publish(name, str(number))
        dropped = await client.ask("credit", "dropped", id="s", count=5)
        assert (dropped["count"], dropped["position"]) == (5, "0:6")
        await writer.publish(name, "6")
        assert await client.values(1) == ["6"]


async def test_deleted_records_are_reported_as_a_gap(node: RunningNode, name: str) -> None:
    async with gateway(node) as client:
        for number in range(5):
            await client.publish(name, str(number))
        before = {"partition": 0, "before": 3}
        await call(node, "DELETE", f"/v1/topics/{name}/records", params=before)
        await client.subscribe(name, positions={name: "0:1"})
        gap = await client.next("gap")
        assert (gap["wanted"], gap["next"]) == (1, 3)
        assert await client.values(2) == ["3", "4"]


async def test_a_deleted_topic_ends_its_subscription(node: RunningNode, name: str) -> None:
    await create(node, name)
    async with gateway(node) as client:
        await client.subscribe(name)
        await call(node, "DELETE", f"/v1/topics/{name}")
        told = await client.next("unsubscribed")
        assert told["error"] == "UnknownTopic"
        await client.ask("ping", "pong")


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        ({"type": "subscribe", "id": 1, "topic": "no-such-topic"}, "UnknownTopic"),
        ({"type": "subscribe", "id": 1, "topic": "a/#/b"}, "InvalidPattern"),
        ({"type": "subscribe", "id": 1, "topic": "a/#", "group": "g"}, "InvalidRequest"),
        ({"type": "subscribe", "id": 1, "topic": "a/#", "start": {}}, "InvalidRequest"),
        ({"type": "subscribe", "topic": "a/#"}, "InvalidRequest"),
        ({"type": "publish", "id": 1, "topic": "a/+/b", "value": ""}, "InvalidTopicName"),
        ({"type": "publish", "id": 1, "topic": "bad name", "value": ""}, "InvalidTopicName"),
        ({"type": "publish", "id": 1, "topic": "__consumer_offsets", "value": ""}, None),
        ({"type": "publish", "id": 1, "topic": "t", "value": 5}, "InvalidRecord"),
        ({"type": "publish", "id": 1, "topic": "t", "value": "?", "encoding": "base64"}, None),
        ({"type": "publish", "id": 1, "topic": "t", "partition": 99}, "InvalidRequest"),
        ({"type": "credit", "id": 1, "count": 1}, "InvalidRequest"),
        ({"type": "unsubscribe", "id": 1}, "InvalidRequest"),
        ({"type": "login", "id": 1, "token": "x"}, "InvalidRequest"),
        ({"type": "nonsense"}, "InvalidRequest"),
        ({}, "InvalidRequest"),
    ],
)
async def test_what_is_wrong_is_said_and_the_connection_stays(
    node: RunningNode, request_: dict[str, Any], error: str | None
) -> None:
    async with gateway(node) as client:
        fields = {name: value for name, value in request_.items() if name != "type"}
        told = await client.ask(request_.get("type", ""), "error", **fields)
        assert error in (None, told["error"]), told
        await client.ask("ping", "pong")


async def test_a_client_may_have_so_many_subscriptions(node: RunningNode, name: str) -> None:
    async with gateway(node) as client:
        for number in range(100):
            await client.subscribe(f"{name}/#", id=number)
        told = await client.ask("subscribe", "error", id="more", topic=f"{name}/#")
        assert told["error"] == "PolicyViolation"
        await client.ask("unsubscribe", "unsubscribed", id=0)
        await client.subscribe(f"{name}/#", id="more")


async def test_one_message_reaches_fifty_clients(node: RunningNode, name: str) -> None:
    """A2: fan-out; all get all, in order."""
    await create(node, name)

    async def follow(ready: asyncio.Queue[None]) -> list[Any]:
        async with gateway(node) as client:
            await client.subscribe(name)
            ready.put_nowait(None)
            return await client.values(100)

    ready: asyncio.Queue[None] = asyncio.Queue()
    async with asyncio.TaskGroup() as tasks:
        followers = [tasks.create_task(follow(ready)) for _ in range(50)]
        for _ in followers:
            await ready.get()
        async with gateway(node) as writer:
            for number in range(100):
                await writer.send("publish", topic=name, value=str(number))
            for _ in range(100):
                await writer.next("published")
    expected = [str(number) for number in range(100)]
    assert [follower.result() for follower in followers] == [expected] * 50


async def test_who_is_connected_is_shown(node: RunningNode, name: str) -> None:
    """E5: the client registry."""
    async with gateway(node, query=f"?client={name}") as client:
        await client.subscribe("a/#")
        (row,) = [row for row in await connected(node) if row["name"] == name]
        assert (row["protocol"], row["subscriptions"], row["user"]) == (JSON, ["a/#"], "ANONYMOUS")
    # Over another connection the node may be asked before it has seen the first one close.
    async with asyncio.timeout(TIMEOUT_S):
        while any(row["name"] == name for row in await connected(node)):
            pass
