"""Messages that only the disk has, over AMQP 1.0: links wait for it, but not to give up credit."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from proton import Message
from proton.utils import BlockingConnection, LinkDetached

from chordmq.broker.queues import follower
from chordmq.broker.queues import queue as machine
from tests.cold_disk import Disk
from tests.cold_node import ColdNode, cold_node, numbers, pages
from tests.fronts.amqp.test_cold_consumers import connected
from tests.fronts.amqp1.client import TIMEOUT_S, body_of, starting_at

COUNT = 40
MESSAGES = pages(COUNT)
ALL = list(range(COUNT))
WINDOW = 4
TOPIC, QUEUE = "t", "/queues/q"


@pytest.fixture
async def cold(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ColdNode]:
    """Give a node whose queues keep few messages."""
    monkeypatch.setattr(machine, "WINDOW_MESSAGES", WINDOW)
    monkeypatch.setattr(follower, "REFILL_BYTES", 50_000)
    async with cold_node(tmp_path, disk) as cold:
        yield cold


def opened(cold: ColdNode) -> BlockingConnection:
    """Return a connection."""
    host, port = cold.amqp_address
    return BlockingConnection(f"amqp://{host}:{port}", timeout=TIMEOUT_S)


async def filled(cold: ColdNode, address: str) -> None:
    """Have the messages in a topic or queue, each stored when the next one comes."""

    def fill() -> None:
        if address == QUEUE:
            with connected(cold) as channel:
                channel.queue_declare("q", durable=True)
        connection = opened(cold)
        sender = connection.create_sender(address)
        for message in MESSAGES:
            sender.send(Message(body=message, durable=True))
        connection.close()

    cold.disk.is_warm = True
    await asyncio.to_thread(fill)
    cold.disk.is_warm = False


class Reader:
    """A client of a topic or queue, which has as much credit as a test gives it."""

    def __init__(self, cold: ColdNode, address: str, credit: int = 0) -> None:
        self.connection = opened(cold)
        options = starting_at("first") if address == TOPIC else None
        self._receiver: Any = self.connection.create_receiver(
            address, credit=credit, options=options
        )
        self._others: Any = None

    def begin_to_drain(self) -> None:
        """Ask for what is there."""
        self._receiver.link.drain(COUNT + 5)
        self.so_far()

    def drained(self) -> list[int]:
        """Return what has come when credit is given up."""
        link = self._receiver.link
        self.connection.wait(lambda: link.credit == 0, timeout=TIMEOUT_S)
        return self._came()

    def so_far(self) -> list[int]:
        """Return what came before the answer to something else."""
        if self._others is None:
            self._others = self.connection.create_sender("others")
        self._others.send(Message(body=b"x"))
        return self._came()

    def all(self) -> list[int]:
        """Return everything, and what comes on top of it."""
        incoming = self._receiver.fetcher.incoming
        self.connection.wait(lambda: len(incoming) >= COUNT, timeout=TIMEOUT_S)
        return self.so_far()

    def _came(self) -> list[int]:
        incoming = self._receiver.fetcher.incoming
        return numbers([body_of(message) for message, _ in incoming])

    def close(self) -> None:
        """Leave; the link may have been ended."""
        with suppress(LinkDetached):
            self.connection.close()


PLACES = pytest.mark.parametrize(
    ("address", "held"), [(TOPIC, []), (QUEUE, ALL[:WINDOW])], ids=["topic", "queue"]
)


@PLACES
async def test_others_are_served_while_a_link_waits_for_the_disk(
    cold: ColdNode, address: str, held: list[int]
) -> None:
    """D2, E4: then everything comes, in order and once; what a queue has in memory at once."""
    await filled(cold, address)
    reader = await asyncio.to_thread(Reader, cold, address, COUNT + 5)
    await cold.waiting()
    assert await asyncio.to_thread(reader.so_far) == held
    cold.disk.may_go_on.set()
    assert await asyncio.to_thread(reader.all) == ALL
    await asyncio.to_thread(reader.close)


@PLACES
async def test_a_link_gets_everything_from_memory_that_is_short(
    cold: ColdNode, address: str, held: list[int]
) -> None:
    """D2, E4: pages that are gone again at once are not waited for twice."""
    await filled(cold, address)
    cold.disk.forgets = True
    cold.disk.may_go_on.set()
    reader = await asyncio.to_thread(Reader, cold, address, COUNT + 5)
    assert await asyncio.to_thread(reader.all) == ALL
    assert 1 <= cold.waits <= COUNT
    await asyncio.to_thread(reader.close)


async def test_credit_for_a_queue_is_not_given_up_before_its_messages_have_come(
    cold: ColdNode,
) -> None:
    """E4: whoever drains is served at once, and learns that the queue is empty when it is."""
    await filled(cold, QUEUE)
    reader = await asyncio.to_thread(Reader, cold, QUEUE)
    await asyncio.to_thread(reader.begin_to_drain)
    assert await asyncio.to_thread(reader.drained) == ALL
    assert not cold.waits
    await asyncio.to_thread(reader.close)


async def test_credit_for_a_topic_is_not_given_up_before_the_disk_has_answered(
    cold: ColdNode,
) -> None:
    """E4: until then others are served."""
    await filled(cold, TOPIC)
    reader = await asyncio.to_thread(Reader, cold, TOPIC)
    await asyncio.to_thread(reader.begin_to_drain)
    await cold.waiting()
    assert await asyncio.to_thread(reader.so_far) == []
    assert reader._receiver.link.credit
    cold.disk.may_go_on.set()
    assert await asyncio.to_thread(reader.drained) == ALL
    await asyncio.to_thread(reader.close)


@PLACES
@pytest.mark.parametrize("what", ["reader", "topic"])
async def test_a_link_or_topic_that_goes_meanwhile_does_no_harm(
    cold: ColdNode, address: str, held: list[int], what: str
) -> None:
    """E4: others do not notice."""
    await filled(cold, address)
    reader = await asyncio.to_thread(Reader, cold, address, COUNT + 5)
    await cold.waiting()
    if what == "reader":
        await asyncio.to_thread(reader.close)
    else:
        await cold.broker.topics.delete("q" if address == QUEUE else TOPIC)
    cold.disk.may_go_on.set()
    other = await asyncio.to_thread(Reader, cold, "others")
    await asyncio.to_thread(other.so_far)
    await asyncio.to_thread(other.close)
    if what == "topic":
        await asyncio.to_thread(reader.close)
