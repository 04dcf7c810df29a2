"""Consumers of the provider's protocol that read what only the disk has."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from chordmq.broker.broker import Broker
from chordmq.clock import SystemClock
from chordmq.codecs.provider.frames import HEAD_SIZE
from chordmq.fronts.listener import Listener
from chordmq.fronts.provider.connection import serve
from chordmq.fronts.provider.front import ProviderFront
from chordmq.fronts.provider.settings import ProviderSettings
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
from tests.fronts.provider.client import DISCONNECT, Client

OLD = [b"%d" % number for number in range(10)]
OWN: dict[str, Any] = {"from": "earliest"}
SHARED: dict[str, Any] = {"from": "earliest", "index": "shared", "group": "g"}

indexes = pytest.mark.parametrize("index", [OWN, SHARED], ids=["own", "shared"])


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    async with cold_broker(tmp_path, OLD) as broker:
        yield broker


@pytest.fixture
async def front(broker: Broker) -> AsyncIterator[ProviderFront]:
    settings = ProviderSettings(port=0)
    listener = Listener(settings, SystemClock(), "provider")
    front = ProviderFront(broker, listener, settings)
    broker.topics.watchers.append(front.look_again)
    async with listening(listener, lambda: Stream(listener, partial(serve, front), HEAD_SIZE)):
        yield front


def connected(front: ProviderFront) -> Client:
    return Client(("127.0.0.1", front.listener.port))


async def subscribed(client: Client, index: dict[str, Any], **more: Any) -> None:
    await asyncio.to_thread(client.subscribe, "t", **index | more)


async def taken(client: Client, count: int) -> list[bytes | None]:
    return [one.value for one in await asyncio.to_thread(client.take, count)]


async def published(front: ProviderFront, topic: str, value: bytes) -> list[tuple[int, int]]:
    with connected(front) as client:
        return await asyncio.to_thread(client.publish, topic, value)


@indexes
async def test_others_are_served_while_a_consumer_waits_for_the_disk(
    broker: Broker, front: ProviderFront, disk: Disk, looks: Looks, index: dict[str, Any]
) -> None:
    """D7, D8: nobody else waits for it, and who does is not asked again and again."""
    with connected(front) as client:
        await subscribed(client, index)
        await waiting(broker)
        assert await published(front, "t", b"new") == [(0, 10)]
        assert await published(front, "u", b"other") == [(0, 0)]
        assert await looks.in_many_turns() == 0
        assert front.messages_out == 0
        disk.may_go_on.set()
        assert await taken(client, 11) == [*OLD, b"new"]
        await published(front, "t", b"last")
        assert await taken(client, 1) == [b"last"]
        assert front.redelivered == 0


@indexes
async def test_records_that_do_not_stay_in_memory_are_delivered_all_the_same(
    front: ProviderFront, disk: Disk, index: dict[str, Any]
) -> None:
    """D8: where memory is short, waiting again and again would take for ever."""
    disk.forgets = True
    disk.may_go_on.set()
    with connected(front) as client:
        await subscribed(client, index, credit=3)
        for begin in range(0, 9, 3):
            messages = await asyncio.to_thread(client.take, 3)
            assert [one.value for one in messages] == OLD[begin : begin + 3]
            client.acknowledge(*[one.id for one in messages])
        assert await taken(client, 1) == OLD[9:]


@indexes
async def test_a_consumer_is_woken_by_what_was_brought_for_somebody_else(
    broker: Broker, front: ProviderFront, disk: Disk, index: dict[str, Any]
) -> None:
    """D8: the disk is asked once."""
    fetched_for_somebody_else(broker)
    with connected(front) as client:
        await subscribed(client, index)
        await published(front, "u", b"other")
        disk.may_go_on.set()
        assert await taken(client, 10) == OLD
    assert broker.shared.read_ahead.fetched == 1


@indexes
async def test_what_was_not_acknowledged_in_time_comes_again_from_the_disk(
    front: ProviderFront, disk: Disk, index: dict[str, Any]
) -> None:
    """D8: redelivered, though memory has forgotten it."""
    disk.forgets = True
    disk.may_go_on.set()
    with connected(front) as client:
        await subscribed(client, index, ack_timeout_ms=300)
        assert await taken(client, 10) == OLD
        again = await asyncio.to_thread(client.take, 10)
        assert {one.value: one.deliveries for one in again} == dict.fromkeys(OLD, 2)


@indexes
async def test_a_topic_that_is_deleted_meanwhile_ends_its_consumers(
    broker: Broker,
    front: ProviderFront,
    disk: Disk,
    no_complaints: None,
    index: dict[str, Any],
) -> None:
    tasks = asyncio.all_tasks()
    with connected(front) as client:
        await subscribed(client, index)
        await waiting(broker)
        await broker.topics.delete("t")
        assert (await asyncio.to_thread(client.receive)).kind == DISCONNECT
        await over(tasks)
    disk.may_go_on.set()
    await turns()
    assert front.messages_out == 0


@indexes
async def test_a_consumer_may_leave_while_it_waits_for_the_disk(
    broker: Broker,
    front: ProviderFront,
    disk: Disk,
    no_complaints: None,
    index: dict[str, Any],
) -> None:
    """D8: what it would have got goes to the next one."""
    tasks = asyncio.all_tasks()
    with connected(front) as client:
        await subscribed(client, index)
        await waiting(broker)
    await over(tasks)
    assert not broker.partition("t", 0).readers
    disk.may_go_on.set()
    with connected(front) as client:
        await subscribed(client, index)
        assert await taken(client, 10) == OLD
