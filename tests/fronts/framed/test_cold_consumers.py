"""Consumers of the plain length-prefixed protocol that read what only the disk has."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from chordmq.broker.broker import Broker
from chordmq.clock import SystemClock
from chordmq.fronts.framed.connection import serve
from chordmq.fronts.framed.front import FramedFront
from chordmq.fronts.framed.settings import FramedSettings
from chordmq.fronts.listener import Listener
from chordmq.fronts.stream import Stream
from tests.cold_disk import Disk
from tests.fronts.cold import (
    Looks,
    cold_broker,
    fetched_for_somebody_else,
    listening,
    over,
    turns,
    waiting,
)
from tests.fronts.framed.client import Client

OLD = [b"%d" % number for number in range(10)]

modes = pytest.mark.parametrize("mode", ["broadcast", "queue"])


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    async with cold_broker(tmp_path, OLD) as broker:
        yield broker


@pytest.fixture
async def front(broker: Broker) -> AsyncIterator[FramedFront]:
    settings = FramedSettings(port=0)
    listener = Listener(settings, SystemClock(), "framed")
    front = FramedFront(broker, listener, settings)
    async with listening(listener, lambda: Stream(listener, partial(serve, front))):
        yield front


def consumer(front: FramedFront, mode: str) -> Client:
    address = ("127.0.0.1", front.listener.port)
    return Client(address, f"CONSUMER topic=t mode={mode} start=earliest")


async def taken(client: Client, count: int) -> list[bytes]:
    return await asyncio.to_thread(client.take, count)


async def produced(front: FramedFront, topic: str, value: bytes) -> bytes:
    """Send a message, and return the answer."""
    address = ("127.0.0.1", front.listener.port)
    with Client(address, f"PRODUCER topic={topic} ack=each") as producer:
        producer.send(value)
        return await asyncio.to_thread(producer.receive)


@modes
async def test_others_are_served_while_a_consumer_waits_for_the_disk(
    broker: Broker, front: FramedFront, disk: Disk, looks: Looks, mode: str
) -> None:
    """B3, D8: nobody else waits for it, and who does is not asked again and again."""
    with consumer(front, mode) as client:
        await waiting(broker)
        assert await produced(front, "t", b"new") == b"ACK 10"
        assert await produced(front, "u", b"other") == b"ACK 0"
        assert await looks.in_many_turns() == 0
        assert front.messages_out == 0
        disk.may_go_on.set()
        assert await taken(client, 11) == [*OLD, b"new"]
        await produced(front, "t", b"last")
        assert await taken(client, 1) == [b"last"]


@modes
async def test_records_that_do_not_stay_in_memory_are_delivered_all_the_same(
    front: FramedFront, disk: Disk, mode: str
) -> None:
    """B3, D8: where memory is short, waiting again and again would take for ever."""
    disk.forgets = True
    disk.may_go_on.set()
    with consumer(front, mode) as client:
        assert await taken(client, 10) == OLD


@modes
async def test_a_consumer_is_woken_by_what_was_brought_for_somebody_else(
    broker: Broker, front: FramedFront, disk: Disk, mode: str
) -> None:
    """D8: the disk is asked once."""
    fetched_for_somebody_else(broker)
    with consumer(front, mode) as client:
        await turns()
        await produced(front, "u", b"other")
        disk.may_go_on.set()
        assert await taken(client, 10) == OLD
    assert broker.shared.read_ahead.fetched == 1


async def test_a_consumer_that_has_no_room_misses_only_what_it_chose_to(
    broker: Broker, disk: Disk
) -> None:
    """B5: back-pressure reaches the log, also when that is on the disk."""
    disk.forgets = True
    disk.may_go_on.set()
    settings = FramedSettings(port=0, consumer_buffer_size=3)
    listener = Listener(settings, SystemClock(), "framed")
    front = FramedFront(broker, listener, settings)
    async with listening(listener, lambda: Stream(listener, partial(serve, front))):
        address = ("127.0.0.1", listener.port)
        with Client(address, "CONSUMER topic=t mode=broadcast start=earliest") as client:
            for begin in range(0, 9, 3):
                assert await taken(client, 3) == OLD[begin : begin + 3]
                client.send(*[b"ACK"] * 3)
            assert await taken(client, 1) == OLD[9:]


@modes
async def test_a_topic_that_is_deleted_meanwhile_ends_its_consumers(
    broker: Broker, front: FramedFront, disk: Disk, no_complaints: None, mode: str
) -> None:
    tasks = asyncio.all_tasks()
    with consumer(front, mode) as client:
        await waiting(broker)
        await broker.topics.delete("t")
        assert (await taken(client, 1))[0].startswith(b"ERROR")
        await over(tasks)
    disk.may_go_on.set()
    await turns()
    assert front.messages_out == 0


@modes
async def test_a_consumer_may_leave_while_it_waits_for_the_disk(
    broker: Broker, front: FramedFront, disk: Disk, no_complaints: None, mode: str
) -> None:
    """B3: what it would have got goes to the next one."""
    tasks = asyncio.all_tasks()
    with consumer(front, mode):
        await waiting(broker)
    await over(tasks)
    assert not broker.partition("t", 0).readers
    disk.may_go_on.set()
    with consumer(front, mode) as client:
        assert await taken(client, 10) == OLD
