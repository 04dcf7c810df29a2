"""Messages of procedure calls: where they go, in which batches, and what is refused."""

import httpx
import pytest

from tests.fronts.rpc.clients import Doors
from tests.fronts.rpc.contract import Refused, Row
from tests.running_node import RunningNode


async def test_messages_keep_everything_that_they_carry(
    node: RunningNode, name: str, door: Doors
) -> None:
    """A1: key, value, headers and time; what is missing and what is empty stay different."""
    client = await door.open(node)
    await client.create_topic(name, 1, **{"retention.ms": "-1"})
    rows = [
        Row(b"value", b"key", (("a", b"1"), ("a", None), ("b", b"")), 1_700_000_000_123),
        Row(None, b"\xff\x00", (), 5),
        Row(b"", b"", (), 6),
        Row(b"\x00\xfe", None, (("\u00fc", b"\xff"),), 0),
    ]
    places = await client.publish(name, rows)
    assert places == [(0, 0), (0, 1), (0, 2), (0, 3)]
    found = await (await client.subscribe(name)).take(4)
    assert [row._replace(partition=-1, offset=-1) for row in found] == rows


async def test_a_key_decides_the_partition_as_kafkas_clients_do(
    node: RunningNode, name: str, door: Doors
) -> None:
    client = await door.open(node)
    assert await client.create_topic(name, 4) == 4
    places = await client.publish(name, [Row(b"v", b"k%d" % number) for number in range(40)])
    async with httpx.AsyncClient(timeout=60) as http:
        rows = [{"key": f"k{number}", "value": "v"} for number in range(40)]
        answer = await http.post(f"{node.http}/v1/topics/{name}/records", json=rows)
    assert [place[0] for place in places] == [
        record["partition"] for record in answer.json()["records"]
    ]
    assert len({place[0] for place in places}) == 4


async def test_a_call_may_bring_more_than_one_batch_can_hold(
    node: RunningNode, name: str, door: Doors
) -> None:
    client = await door.open(node)
    await client.create_topic(name, 1, **{"max.message.bytes": "10000"})
    places = await client.publish(name, [Row(b"x" * 3_000) for _ in range(20)])
    assert places == [(0, offset) for offset in range(20)]


async def test_what_is_too_large_is_refused_and_the_rest_is_stored(
    node: RunningNode, name: str, door: Doors
) -> None:
    client = await door.open(node)
    await client.create_topic(name, 2, **{"max.message.bytes": "10000"})
    rows = [Row(b"small", partition=0), Row(b"x" * 20_000, partition=1)]
    assert await client.publish(name, rows) == [(0, 0), (1, -1)]
    with pytest.raises(Refused) as refusal:
        await client.publish(name, rows[1:])
    assert refusal.value.error == "BatchTooLarge"


async def test_a_stream_stores_in_order(node: RunningNode, name: str, door: Doors) -> None:
    """A1: a persistent connection, many batches under way."""
    client = await door.open(node)
    await client.create_topic(name)
    batches = [[Row(b"%d" % (begin + row)) for row in range(100)] for begin in range(0, 5000, 100)]
    assert await client.stream(name, batches) == 5000
    found = await (await client.subscribe(name)).take(5000)
    assert [row.value for row in found] == [b"%d" % number for number in range(5000)]


async def test_a_stream_tells_what_could_not_be_stored(
    node: RunningNode, name: str, door: Doors
) -> None:
    client = await door.open(node)
    await client.create_topic(name, 1, **{"max.message.bytes": "1000"})
    with pytest.raises(Refused) as refusal:
        await client.stream(name, [[Row(b"fine")], [Row(b"x" * 5_000)], [Row(b"late")]])
    assert refusal.value.error == "BatchTooLarge"


@pytest.mark.parametrize(
    ("topic", "rows", "error"),
    [
        ("t", [], "InvalidRequest"),
        ("t", [Row(b"v", partition=7)], "InvalidRequest"),
        ("not a name", [Row(b"v")], "InvalidTopicName"),
        ("__consumer_offsets", [Row(b"v")], "PolicyViolation"),
        ("a/+/b", [Row(b"v")], "InvalidTopicName"),
    ],
)
async def test_messages_that_make_no_sense_are_refused(
    node: RunningNode, door: Doors, topic: str, rows: list[Row], error: str
) -> None:
    client = await door.open(node)
    await client.publish("t", [Row(b"v")])
    await client.commit("index", "t", "0:0")  # which makes the topic of committed offsets
    with pytest.raises(Refused) as refusal:
        await client.publish(topic, rows)
    assert refusal.value.error == error


async def test_a_name_with_levels_finds_its_topic_and_its_key(
    node: RunningNode, name: str, door: Doors
) -> None:
    client = await door.open(node)
    await client.publish(f"{name}/site/device-7/temperature", [Row(b"21")])
    (row,) = await (await client.subscribe(f"{name}.site")).take(1)
    assert (row.key, row.name) == (b"device-7", f"{name}/site/device-7/temperature")
    assert row.headers == ()
