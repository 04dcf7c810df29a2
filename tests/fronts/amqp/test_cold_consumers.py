"""Messages that only the disk has, over AMQP 0-9-1: consumers wait for it, and nobody else."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from chordmq.broker.queues import follower
from chordmq.broker.queues import queue as machine
from tests.cold_disk import Disk
from tests.cold_node import ColdNode, cold_node, numbers, pages
from tests.fronts.amqp.client import TIMEOUT_S

COUNT = 40
MESSAGES = pages(COUNT)
ALL = list(range(COUNT))
WINDOW = 4
STREAM = {"x-queue-type": "stream"}
FIRST = {"x-stream-offset": "first"}


@pytest.fixture
async def cold(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ColdNode]:
    """Give a node whose queues keep few messages."""
    monkeypatch.setattr(machine, "WINDOW_MESSAGES", WINDOW)
    monkeypatch.setattr(follower, "REFILL_BYTES", 50_000)
    async with cold_node(tmp_path, disk) as cold:
        yield cold


@contextmanager
def connected(cold: ColdNode) -> Iterator[BlockingChannel]:
    """Give a channel of a connection of its own."""
    host, port = cold.amqp_address
    patience: dict[str, Any] = {"socket_timeout": TIMEOUT_S, "stack_timeout": TIMEOUT_S}
    connection = pika.BlockingConnection(pika.ConnectionParameters(host, port, **patience))
    channel = connection.channel()
    channel.confirm_delivery()
    try:
        yield channel
    finally:
        connection.close()


def fill(cold: ColdNode, arguments: dict[str, Any] | None = None) -> None:
    """Publish to queue `q`, each message when the one before is stored."""
    cold.disk.is_warm = True
    with connected(cold) as channel:
        channel.queue_declare("q", durable=True, arguments=arguments)
        for message in MESSAGES:
            channel.basic_publish("", "q", message)
    cold.disk.is_warm = False


def served(cold: ColdNode) -> None:
    """See that others declare, and publish what is stored."""
    with connected(cold) as channel:
        channel.queue_declare("other", durable=True)
        channel.basic_publish("", "other", b"warm")


class Consumer:
    """A client that consumes queue `q`, in a thread of its own while it waits."""

    def __init__(self, cold: ColdNode, arguments: dict[str, Any] | None = None) -> None:
        self.bodies: list[bytes] = []
        self._connected = connected(cold)
        self.channel = self._connected.__enter__()
        self.channel.basic_qos(prefetch_count=10)
        self.channel.basic_consume("q", self._got, arguments=arguments)

    def _got(self, channel: BlockingChannel, method: Any, _: Any, body: bytes) -> None:
        self.bodies.append(body)
        channel.basic_ack(method.delivery_tag)

    def so_far(self) -> list[int]:
        """Return what came before the answer to a question."""
        self.channel.queue_declare("q", passive=True)
        self.channel.connection.process_data_events(0)
        return numbers(self.bodies)

    def all(self) -> list[int]:
        """Return everything, and what comes on top of it."""
        while len(self.bodies) < COUNT:
            self.channel.connection.process_data_events(1)
        return self.so_far()

    def close(self) -> None:
        """Leave."""
        self._connected.__exit__(None, None, None)


KINDS = pytest.mark.parametrize(
    ("kind", "start", "held"),
    [(None, None, ALL[:WINDOW]), (STREAM, FIRST, [])],
    ids=["queue", "stream"],
)


@KINDS
async def test_others_are_served_while_a_consumer_waits_for_the_disk(
    cold: ColdNode, kind: Any, start: Any, held: list[int]
) -> None:
    """D2, E4: then it gets everything, in order and once; what a queue has in memory at once."""
    await asyncio.to_thread(fill, cold, kind)
    consumer = await asyncio.to_thread(Consumer, cold, start)
    await cold.waiting()
    await asyncio.to_thread(served, cold)
    assert await asyncio.to_thread(consumer.so_far) == held
    cold.disk.may_go_on.set()
    assert await asyncio.to_thread(consumer.all) == ALL
    await asyncio.to_thread(consumer.close)


@KINDS
async def test_a_consumer_gets_everything_from_memory_that_is_short(
    cold: ColdNode, kind: Any, start: Any, held: list[int]
) -> None:
    """D2, E4: pages that are gone again at once are not waited for twice."""
    await asyncio.to_thread(fill, cold, kind)
    cold.disk.forgets = True
    cold.disk.may_go_on.set()
    consumer = await asyncio.to_thread(Consumer, cold, start)
    assert await asyncio.to_thread(consumer.all) == ALL
    assert 1 <= cold.waits <= COUNT
    await asyncio.to_thread(consumer.close)


@KINDS
@pytest.mark.parametrize("what", ["consumer", "queue", "topic"])
async def test_a_consumer_queue_or_topic_that_goes_meanwhile_does_no_harm(
    cold: ColdNode, kind: Any, start: Any, held: list[int], what: str
) -> None:
    """E4: others do not notice."""
    await asyncio.to_thread(fill, cold, kind)
    consumer = await asyncio.to_thread(Consumer, cold, start)
    await cold.waiting()
    queue = cold.broker.queues.vhosts["/"].queues["q"]
    if what == "consumer":
        await asyncio.to_thread(consumer.close)
    elif what == "queue":
        await cold.broker.queues.delete_queue(queue)
    else:
        await cold.broker.topics.delete("q")
    cold.disk.may_go_on.set()
    await asyncio.to_thread(served, cold)
    assert numbers(consumer.bodies) in ([], held)
    if what != "consumer":
        await asyncio.to_thread(consumer.close)


def got(cold: ColdNode) -> list[int]:
    """Ask for all messages one by one."""
    with connected(cold) as channel:
        answers = [channel.basic_get("q", auto_ack=True) for _ in range(COUNT)]
        assert channel.basic_get("q") == (None, None, None)
        return numbers([body or b"nothing" for _, _, body in answers])


async def test_who_asks_for_a_message_gets_it_at_once(cold: ColdNode) -> None:
    """E4: basic.get-empty would tell that the queue is empty."""
    await asyncio.to_thread(fill, cold)
    assert await asyncio.to_thread(got, cold) == ALL
    assert not cold.waits


async def test_who_asks_after_a_restart_gets_what_is_being_brought(
    tmp_path: Path, disk: Disk
) -> None:
    """E4: although nothing has been handed out to the queue yet; others are served."""
    async with cold_node(tmp_path, disk) as cold:
        await asyncio.to_thread(fill, cold)
    disk.is_warm = False
    disk.may_go_on.clear()
    async with cold_node(tmp_path, disk) as cold:
        await asyncio.to_thread(served, cold)
        queues, partition = cold.broker.queues, cold.partition("q")
        async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
            asked = tasks.create_task(asyncio.to_thread(got, cold))
            while not queues.following._followers[partition]._awaited:  # noqa: ASYNC110
                await asyncio.sleep(0)
            assert queues.vhosts["/"].queues["q"].ready == 0
            disk.may_go_on.set()
        assert asked.result() == ALL
