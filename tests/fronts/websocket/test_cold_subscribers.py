"""Clients of the WebSocket gateway that read what only the disk has."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.applications import Starlette

from chordmq.broker.broker import Broker
from chordmq.broker.names import Names
from chordmq.clock import SystemClock
from chordmq.fronts.admin.connection import HttpFront
from chordmq.fronts.listener import Listener, ListenerSettings
from chordmq.fronts.websocket.connection import WebSocketConnection
from chordmq.fronts.websocket.front import WebSocketFront
from chordmq.fronts.websocket.settings import WebSocketSettings
from tests.cold_disk import Disk
from tests.fronts.cold import (
    PATIENCE_S,
    Looks,
    cold_broker,
    fetched_for_somebody_else,
    listening,
    over,
    turns,
    waiting,
)
from tests.fronts.websocket.gateway import Gateway, gateway

OLD = [str(number) for number in range(10)]
OWN: dict[str, Any] = {"start": "earliest"}
SHARED: dict[str, Any] = {"start": "earliest", "group": "g"}

indexes = pytest.mark.parametrize("index", [OWN, SHARED], ids=["own", "shared"])


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    async with cold_broker(tmp_path, map(str.encode, OLD)) as broker:
        yield broker


@pytest.fixture
async def front(broker: Broker) -> AsyncIterator[WebSocketFront]:
    listener = Listener(ListenerSettings(port=0), SystemClock(), "http")
    front = WebSocketFront(
        broker=lambda: broker, listener=listener, settings=WebSocketSettings(), names=Names()
    )
    broker.topics.watchers.append(front.look_again)
    http = HttpFront(
        listener, Starlette(), lambda host, user, _: WebSocketConnection(front, host, user)
    )
    async with listening(listener, http.connect):
        yield front


@pytest.fixture
def node(front: WebSocketFront) -> Any:
    """Give what clients need to know of a node."""
    return SimpleNamespace(http_address=("127.0.0.1", front.listener.port))


async def values(client: Gateway, count: int) -> list[Any]:
    async with asyncio.timeout(PATIENCE_S):
        return await client.values(count)


@indexes
async def test_others_are_served_while_a_subscriber_waits_for_the_disk(
    broker: Broker,
    front: WebSocketFront,
    node: Any,
    disk: Disk,
    looks: Looks,
    index: dict[str, Any],
) -> None:
    """E5, D8: nobody else waits for it, and who does is not asked again and again."""
    async with gateway(node) as client, gateway(node) as other:
        await client.subscribe("t", **index)
        await waiting(broker)
        assert (await other.publish("t", "new"))["offset"] == 10
        assert (await client.publish("u", "of its own"))["offset"] == 0
        assert await looks.in_many_turns() == 0
        assert (front.messages_out, client.records) == (0, [])
        disk.may_go_on.set()
        assert await values(client, 11) == [*OLD, "new"]
        await other.publish("t", "last")
        assert await values(client, 1) == ["last"]
        assert client.records == []


@indexes
async def test_records_that_do_not_stay_in_memory_are_delivered_all_the_same(
    node: Any, disk: Disk, index: dict[str, Any]
) -> None:
    """E5: where memory is short, waiting again and again would take for ever."""
    disk.forgets = True
    disk.may_go_on.set()
    async with gateway(node) as client:
        await client.subscribe("t", credit=3, **index)
        assert await values(client, 3) == OLD[:3]
        await client.send("credit", id="s", count=7)
        assert await values(client, 7) == OLD[3:]


@indexes
async def test_a_subscriber_is_woken_by_what_was_brought_for_somebody_else(
    broker: Broker, node: Any, disk: Disk, index: dict[str, Any]
) -> None:
    """D8: the disk is asked once."""
    fetched_for_somebody_else(broker)
    async with gateway(node) as client:
        await client.subscribe("t", **index)
        await client.publish("u", "other")
        disk.may_go_on.set()
        assert await values(client, 10) == OLD
    assert broker.shared.read_ahead.fetched == 1


async def test_subscribers_of_the_same_records_wait_together(
    broker: Broker, node: Any, disk: Disk
) -> None:
    """E5: one more who asks for the same is woken with the others."""
    async with gateway(node) as one, gateway(node) as other:
        await one.subscribe("t", start="earliest")
        await waiting(broker)
        await other.subscribe("t", start="earliest")
        await other.publish("u", "other")
        disk.may_go_on.set()
        assert await values(one, 10) == await values(other, 10) == OLD
    assert broker.shared.read_ahead.fetched == 1


@indexes
async def test_a_topic_that_is_deleted_meanwhile_ends_its_subscriptions(
    broker: Broker,
    front: WebSocketFront,
    node: Any,
    disk: Disk,
    no_complaints: None,
    index: dict[str, Any],
) -> None:
    """E5: the client is told why, and goes on with other topics."""
    async with gateway(node) as client:
        await client.subscribe("t", **index)
        await waiting(broker)
        await broker.topics.delete("t")
        async with asyncio.timeout(PATIENCE_S):
            assert (await client.next("unsubscribed"))["error"] == "UnknownTopic"
        disk.may_go_on.set()
        await turns()
        assert (await client.publish("u", "other"))["offset"] == 0
        assert (front.messages_out, client.records) == (0, [])


@indexes
async def test_a_subscriber_may_leave_while_it_waits_for_the_disk(
    broker: Broker, node: Any, disk: Disk, no_complaints: None, index: dict[str, Any]
) -> None:
    """E5: what it would have got goes to the next one."""
    tasks = asyncio.all_tasks()
    async with gateway(node) as client:
        await client.subscribe("t", **index)
        await waiting(broker)
    await over(tasks)
    assert not broker.partition("t", 0).readers
    disk.may_go_on.set()
    async with gateway(node) as client:
        await client.subscribe("t", **index)
        assert await values(client, 10) == OLD
