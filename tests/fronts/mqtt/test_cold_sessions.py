"""Messages that only the disk has: the sessions they are for wait for it, and nobody else."""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import pytest

from chordmq.codecs.mqtt.properties import NONE, Properties
from tests.cold_disk import Disk
from tests.cold_node import ColdNode, cold_node, numbers, pages
from tests.fronts.mqtt.client import Client

KEPT = Properties(session_expiry_s=600)
EARLIEST = Properties(user=(("stream-offset", "earliest"),))
COUNT = 40
MESSAGES = pages(COUNT)
ALL = list(range(COUNT))
WANTED = "cold/a/1"
TOPIC = "cold.a"
GROUP = f"$share/g/{WANTED}"
STREAM = f"$stream/{TOPIC}"


@pytest.fixture
async def cold(tmp_path: Path, disk: Disk) -> AsyncIterator[ColdNode]:
    async with cold_node(tmp_path, disk) as cold:
        yield cold


def opened(cold: ColdNode, client_id: str = "", version: int = 5) -> Client:
    """Return a client that is let in; one with a name has a session that outlives it."""
    client = Client(cold.mqtt_address, version)
    properties = KEPT if client_id and version == 5 else NONE
    assert client.connect(client_id, clean=not client_id, properties=properties).code == 0
    return client


def publish(cold: ColdNode, name: str = WANTED) -> None:
    """Publish the messages, each when the one before is stored: each is a batch of its own."""
    client = opened(cold)
    for message in MESSAGES:
        assert client.publish(name, message, 1) in (0, 0x10)
    client.disconnect()


def served(cold: ColdNode) -> None:
    """See that others publish and receive."""
    client = opened(cold)
    client.subscribe("warm/b/1", qos=1)
    client.publish("warm/b/1", b"warm", 1)
    assert client.message().payload == b"warm"
    client.disconnect()


def left_behind(cold: ColdNode, *filters: str, version: int = 5, qos: int = 1) -> None:
    """Leave a session that wants what comes."""
    client = opened(cold, "reader", version)
    client.subscribe(*filters, qos=qos)
    client.disconnect()


def session(cold: ColdNode, version: int = 5, qos: int = 1) -> Client:
    """Return the client of a session that has missed the messages while it was away."""
    left_behind(cold, WANTED, version=version, qos=qos)
    publish(cold)
    return opened(cold, "reader", version)


def stream(cold: ColdNode) -> Client:
    """Return a client that reads a log topic from its beginning."""
    publish(cold)
    client = opened(cold)
    assert client.subscribe(STREAM, qos=1, properties=EARLIEST) == [1]
    return client


def member(cold: ColdNode, wanted: str = GROUP) -> Client:
    """Return a client of a group that has a backlog."""
    first = opened(cold)
    first.subscribe(wanted, qos=1)
    first.disconnect()
    publish(cold)
    client = opened(cold)
    assert client.subscribe(wanted, qos=1) == [1]
    return client


READERS: dict[str, Callable[[ColdNode], Client]] = {
    "session of 3.1.1": partial(session, version=4),
    "session of 5": session,
    "session of QoS 2": partial(session, qos=2),
    "stream": stream,
    "shared subscription": member,
    "queue": partial(member, wanted=f"$queue/q/{WANTED}"),
}
readers = pytest.mark.parametrize("reader", READERS.values(), ids=READERS.keys())


@readers
async def test_others_are_served_while_a_reader_waits_for_the_disk(
    cold: ColdNode, reader: Callable[[ColdNode], Client]
) -> None:
    """D2, E3: it gets everything once it is there, in order and only once."""
    client = await asyncio.to_thread(reader, cold)
    await cold.waiting()
    await asyncio.to_thread(served, cold)
    assert await asyncio.to_thread(client.is_quiet)
    cold.disk.may_go_on.set()
    assert numbers(await asyncio.to_thread(client.messages, COUNT)) == ALL
    assert await asyncio.to_thread(client.is_quiet)


@readers
async def test_a_reader_gets_everything_from_memory_that_is_short(
    cold: ColdNode, reader: Callable[[ColdNode], Client]
) -> None:
    """D2, E3: pages that are gone again at once are not waited for twice."""
    cold.disk.forgets = True
    cold.disk.may_go_on.set()
    client = await asyncio.to_thread(reader, cold)
    assert numbers(await asyncio.to_thread(client.messages, COUNT)) == ALL
    assert await asyncio.to_thread(client.is_quiet)
    assert 1 <= cold.waits <= COUNT


async def test_a_client_at_the_end_waits_for_what_other_fronts_have_written(
    cold: ColdNode,
) -> None:
    """E3, X1: what MQTT publishes meanwhile comes after it."""
    client = await asyncio.to_thread(opened, cold)
    await cold.broker.topics.create(TOPIC, 1)
    await asyncio.to_thread(client.subscribe, "cold/a/#", qos=1)
    await cold.append(TOPIC, b"000000")
    await cold.waiting()
    other = await asyncio.to_thread(opened, cold)
    for number in range(1, 5):
        await asyncio.to_thread(other.publish, WANTED, b"%06d" % number, 1)
    assert await asyncio.to_thread(client.is_quiet)
    cold.disk.may_go_on.set()
    assert numbers(await asyncio.to_thread(client.messages, 5)) == [0, 1, 2, 3, 4]
    assert await asyncio.to_thread(client.is_quiet)


@pytest.mark.parametrize("version", [4, 5])
async def test_a_session_whose_client_goes_while_the_disk_is_waited_for_misses_nothing(
    cold: ColdNode, version: int
) -> None:
    """D2, E3: its next connection gets everything."""
    client = await asyncio.to_thread(session, cold, version)
    await cold.waiting()
    client.cut()
    await asyncio.to_thread(served, cold)
    cold.disk.may_go_on.set()
    again = await asyncio.to_thread(opened, cold, "reader", version)
    assert numbers(await asyncio.to_thread(again.messages, COUNT)) == ALL
    assert await asyncio.to_thread(again.is_quiet)


async def test_a_group_whose_client_goes_while_the_disk_is_waited_for_gives_all_to_the_next(
    cold: ColdNode,
) -> None:
    """D2, E3, A5: nothing was given to who is gone."""
    gone = await asyncio.to_thread(member, cold)
    await cold.waiting()
    gone.cut()
    client = await asyncio.to_thread(opened, cold)
    await asyncio.to_thread(client.subscribe, GROUP, qos=1)
    assert await asyncio.to_thread(client.is_quiet)
    cold.disk.may_go_on.set()
    assert numbers(await asyncio.to_thread(client.messages, COUNT)) == ALL
    assert await asyncio.to_thread(client.is_quiet)


async def test_a_stream_whose_client_goes_while_the_disk_is_waited_for_does_no_harm(
    cold: ColdNode,
) -> None:
    gone = await asyncio.to_thread(stream, cold)
    await cold.waiting()
    gone.cut()
    await asyncio.to_thread(served, cold)
    cold.disk.may_go_on.set()
    await asyncio.to_thread(served, cold)
    assert not cold.partition(TOPIC).readers


async def test_a_topic_that_is_deleted_meanwhile_costs_a_session_nothing_else(
    cold: ColdNode,
) -> None:
    """E3: what the session has missed in other topics still comes."""
    await asyncio.to_thread(left_behind, cold, WANTED, "cold/c/1")
    await asyncio.to_thread(publish, cold)
    await asyncio.to_thread(publish, cold, "cold/c/1")
    client = await asyncio.to_thread(opened, cold, "reader")
    await cold.waiting()
    await cold.broker.topics.delete(TOPIC)
    assert await asyncio.to_thread(client.is_quiet)
    cold.disk.may_go_on.set()
    found = await asyncio.to_thread(lambda: [client.message() for _ in ALL])
    assert {one.topic for one in found} == {"cold/c/1"}
    assert numbers([one.payload for one in found]) == ALL
    assert await asyncio.to_thread(client.is_quiet)


@readers
async def test_a_reader_whose_only_topic_is_deleted_meanwhile_is_still_served(
    cold: ColdNode, reader: Callable[[ColdNode], Client]
) -> None:
    """E3: its connection knows nothing of it."""
    client = await asyncio.to_thread(reader, cold)
    await cold.waiting()
    await cold.broker.topics.delete(TOPIC)
    cold.disk.may_go_on.set()
    await asyncio.to_thread(served, cold)
    assert await asyncio.to_thread(client.is_quiet)


def begin_to_fetch(cold: ColdNode, offset: int) -> None:
    """Begin to bring what a consumer of Kafka's will ask for next, which nobody waits for yet."""
    log = cold.partition(TOPIC).log
    cold.broker.shared.read_ahead.prepare(log, offset, 1 << 20, log.end_offset)
    assert cold.waits == 1


async def test_what_is_brought_for_another_front_is_delivered_when_it_is_there(
    cold: ColdNode,
) -> None:
    """D2, C6: what a consumer of Kafka's asks for next is brought into memory before it asks."""
    await asyncio.to_thread(publish, cold)
    begin_to_fetch(cold, 0)
    client = await asyncio.to_thread(opened, cold)
    await asyncio.to_thread(client.subscribe, STREAM, qos=1, properties=EARLIEST)
    assert await asyncio.to_thread(client.is_quiet)
    cold.disk.may_go_on.set()
    assert numbers(await asyncio.to_thread(client.messages, COUNT)) == ALL


async def test_a_client_at_the_end_gets_what_is_brought_for_another_front(cold: ColdNode) -> None:
    """D2, C6: nothing else has to come first."""
    await cold.broker.topics.create(TOPIC, 1, settings={"flush": "os"})
    client = await asyncio.to_thread(opened, cold)
    await asyncio.to_thread(client.subscribe, "cold/a/#", qos=1)
    await cold.append(TOPIC, b"000000")
    begin_to_fetch(cold, 0)
    assert await asyncio.to_thread(client.is_quiet)
    cold.disk.may_go_on.set()
    assert numbers(await asyncio.to_thread(client.messages, 1)) == [0]
