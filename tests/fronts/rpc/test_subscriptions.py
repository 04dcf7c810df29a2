"""Subscriptions over both procedure-call fronts: own and shared indexes, credit, resume."""

import asyncio
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.fronts.rpc.clients import Doors
from tests.fronts.rpc.contract import Client, Refused, Row, Subscription
from tests.running_node import RunningNode

MISSED = 10_000


def values(rows: list[Row]) -> list[bytes]:
    return [row.value or b"" for row in rows]


def numbered(count: int, begin: int = 0) -> list[Row]:
    return [Row(b"%d" % number) for number in range(begin, begin + count)]


async def test_each_index_of_ones_own_gets_every_message(
    node: RunningNode, name: str, door: Doors
) -> None:
    """A2, A3: two subscribers, each gets all, in order."""
    client = await door.open(node)
    await client.create_topic(name)
    first = await client.subscribe(name)
    second = await (await door.open(node)).subscribe(name)
    await client.publish(name, numbered(100))
    expected = values(numbered(100))
    assert values(await first.take(100)) == expected
    assert values(await second.take(100)) == expected


async def test_a_shared_index_gives_each_message_to_one(
    node: RunningNode, name: str, door: Doors
) -> None:
    """A3: three members; what is acknowledged is not given again."""
    client = await door.open(node)
    await client.create_topic(name)
    members = [await client.subscribe(name, shared=f"{name}-group", credit=10) for _ in range(3)]
    await client.publish(name, numbered(30))
    rows = [(member, row) for member in members for row in await member.take(10)]
    assert sorted(row.offset for _, row in rows) == list(range(30))
    for member, row in rows:
        assert row.deliveries == 1
        await member.acknowledge(name, row)
    assert await members[0].is_silent(0.1)


@pytest.mark.parametrize("index", ["own", "shared"])
async def test_nothing_is_missed_when_a_consumer_is_killed(
    node: RunningNode, name: str, door: Doors, index: str
) -> None:
    """A3: three consumers, one dies by kill -9; own: all get everything; shared: one of them."""
    client = await door.open(node)
    await client.create_topic(name)
    wanted = {"shared": f"{name}-group", "credit": 20} if index == "shared" else {}
    others = [await client.subscribe(name, **wanted) for _ in range(2)]
    victim = await asyncio.to_thread(start_victim, node, name, door, index)
    await client.publish(name, numbered(60))
    if index == "own":
        await asyncio.to_thread(kill, victim)
        for one in others:
            assert values(await one.take(60)) == values(numbered(60))
        return
    # The victim holds 20 and acknowledges none.
    first = [(one, row) for one in others for row in await one.take(20)]
    await asyncio.to_thread(kill, victim)
    for one, row in first:
        await one.acknowledge(name, row)
    again: asyncio.Queue[Row] = asyncio.Queue()
    tasks = [asyncio.ensure_future(work(one, name, again)) for one in others]
    rows = [await asyncio.wait_for(again.get(), 60) for _ in range(20)]
    for task in tasks:
        task.cancel()
    assert {row.deliveries for row in rows} == {2}
    offsets = [row.offset for _, row in first] + [row.offset for row in rows]
    assert sorted(offsets) == list(range(60))


async def work(one: Subscription, topic: str, done: asyncio.Queue[Row]) -> None:
    while True:
        for row in await one.take(1):
            await one.acknowledge(topic, row)
            done.put_nowait(row)


def start_victim(node: RunningNode, topic: str, door: Doors, index: str) -> subprocess.Popen[bytes]:
    """Start a consumer in a process of its own; it is subscribed when this returns."""
    script = Path(__file__).with_name("consumer.py")
    host, port = door.address(node)
    group = f"{topic}-group" if index == "shared" else ""
    arguments = [door.front, host, str(port), topic, group, "20"]
    process = subprocess.Popen(
        [sys.executable, str(script), *arguments], stdout=subprocess.PIPE, cwd=script.parents[3]
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"subscribed\n"
    return process


def kill(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == b"has 20\n"
    process.kill()
    process.wait()
    process.stdout.close()


async def test_a_consumer_that_was_away_misses_nothing(
    node: RunningNode, name: str, door: Doors
) -> None:
    """A5: a named index goes on where it was committed, 10,000 messages later."""
    client = await door.open(node)
    await client.create_topic(name)
    first = await client.subscribe(name, own=f"{name}-index")
    await client.publish(name, numbered(10))
    assert values(await first.take(10)) == values(numbered(10))
    await first.commit(name, first.positions[name])
    await client.close()
    other = await door.open(node)
    await other.stream(name, [numbered(500, begin) for begin in range(10, 10 + MISSED, 500)])
    again = await other.subscribe(name, own=f"{name}-index", start="latest")
    assert values(await again.take(MISSED)) == values(numbered(MISSED, 10))
    assert await again.is_silent(0.1)


async def test_a_position_resumes_a_nameless_index(
    node: RunningNode, name: str, door: Doors
) -> None:
    """A5: the client remembers its place itself, over several partitions."""
    client = await door.open(node)
    await client.create_topic(name, 3)
    subscription = await client.subscribe(name)
    rows = [Row(b"%d" % number, partition=number % 3) for number in range(30)]
    await client.publish(name, rows)
    await subscription.take(30)
    positions = subscription.positions
    await subscription.close()
    more = [Row(b"%d" % number, partition=number % 3) for number in range(30, 60)]
    await client.publish(name, more)
    again = await client.subscribe(name, positions=positions)
    assert sorted(map(int, values(await again.take(30)))) == list(range(30, 60))


async def test_no_more_comes_than_credit_allows(node: RunningNode, name: str, door: Doors) -> None:
    client = await door.open(node)
    await client.create_topic(name)
    await client.publish(name, numbered(20))
    subscription = await client.subscribe(name, credit=7)
    assert values(await subscription.take(7)) == values(numbered(7))
    assert await subscription.is_silent(0.1)
    await subscription.credit(5)
    assert values(await subscription.take(5)) == values(numbered(5, 7))
    assert await subscription.is_silent(0.1)


async def test_a_subscription_begins_where_it_is_told(
    node: RunningNode, name: str, door: Doors
) -> None:
    client = await door.open(node)
    await client.create_topic(name, 1, **{"retention.ms": "-1"})
    await client.publish(name, [Row(b"old", timestamp=1_000), Row(b"new", timestamp=2_000)])
    latest = await client.subscribe(name, start="latest")
    timed = await client.subscribe(name, start=1_500)
    earliest = await client.subscribe(name, start="earliest")
    await client.publish(name, [Row(b"newest", timestamp=3_000)])
    assert values(await latest.take(1)) == [b"newest"]
    assert values(await timed.take(2)) == [b"new", b"newest"]
    assert values(await earliest.take(3)) == [b"old", b"new", b"newest"]


async def test_a_filter_reads_the_names_that_match_also_of_new_topics(
    node: RunningNode, name: str, door: Doors
) -> None:
    client = await door.open(node)
    subscription = await client.subscribe(f"{name}/+/a")
    await client.publish(f"{name}/1/a", [Row(b"1")])
    await client.publish(f"{name}/1/b", [Row(b"not this")])
    await client.publish(f"{name}/2/a", [Row(b"2")])
    rows = await subscription.take(2)
    assert sorted(values(rows)) == [b"1", b"2"]
    assert sorted(row.name for row in rows) == [f"{name}/1/a", f"{name}/2/a"]


async def test_what_is_gone_is_told_as_a_gap(node: RunningNode, name: str, door: Doors) -> None:
    client = await door.open(node)
    await client.create_topic(name)
    await client.publish(name, numbered(10))
    url = f"{node.http}/v1/topics/{name}/records"
    async with httpx.AsyncClient(timeout=60) as http:
        answer = await http.delete(url, params={"partition": 0, "before": 6})
    assert answer.status_code == 200
    subscription = await client.subscribe(name, positions={name: "0:2"})
    assert values(await subscription.take(4)) == values(numbered(4, 6))
    assert subscription.gaps == [(0, 2, 6)]


async def test_a_subscription_ends_with_its_topic(
    node: RunningNode, name: str, door: Doors
) -> None:
    client = await door.open(node)
    await client.create_topic(name)
    own = await client.subscribe(name)
    shared = await client.subscribe(name, shared=f"{name}-group")
    await client.delete_topic(name)
    assert (await own.ended()).error == "UnknownTopic"
    assert (await shared.ended()).error == "UnknownTopic"


async def test_answers_that_make_no_sense_are_refused(
    node: RunningNode, name: str, door: Doors
) -> None:
    client = await door.open(node)
    await client.create_topic(name)
    await client.publish(name, numbered(1))
    own = await client.subscribe(name)
    (row,) = await own.take(1)
    shared = await client.subscribe(name, shared=f"{name}-group")
    (taken,) = await shared.take(1)
    with pytest.raises(Refused, match="InvalidRequest"):
        await own.acknowledge(name, row)
    with pytest.raises(Refused, match="InvalidGroupId"):
        await own.commit(name, "0:1")
    with pytest.raises(Refused, match="InvalidRecordState"):
        await shared.acknowledge(name, taken._replace(offset=5))
    with pytest.raises(Refused, match="InvalidRequest"):
        await shared.commit(name, "0:1")
    await shared.acknowledge(name, taken)


@pytest.mark.parametrize(
    ("topic", "wanted", "error"),
    [
        ("nowhere", {}, "UnknownTopic"),
        ("nowhere", {"shared": "group"}, "UnknownTopic"),
        ("a/#/b", {}, "InvalidPattern"),
        ("a/+", {"shared": "group"}, "InvalidRequest"),
        ("nowhere", {"shared": "group", "positions": {"nowhere": "0:0"}}, "InvalidRequest"),
    ],
)
async def test_what_cannot_be_subscribed_to_is_refused(
    node: RunningNode, door: Doors, topic: str, wanted: dict[str, object], error: str
) -> None:
    client: Client = await door.open(node)
    with pytest.raises(Refused) as refusal:
        await client.subscribe(topic, **wanted)
    assert refusal.value.error == error


async def test_released_and_rejected_messages_go_their_ways(
    node: RunningNode, name: str, door: Doors
) -> None:
    """A3: release gives a message to another; reject gives it to nobody."""
    client = await door.open(node)
    await client.create_topic(name)
    await client.publish(name, numbered(2))
    shared = await client.subscribe(name, shared=f"{name}-group", credit=2)
    released, rejected = await shared.take(2)
    await shared.acknowledge(name, rejected, "reject")
    await shared.acknowledge(name, released, "renew")
    await shared.acknowledge(name, released, "release")
    (again,) = await shared.take(1)
    assert (again.offset, again.deliveries) == (released.offset, 2)
    assert await shared.is_silent(0.1)
