"""Messages that only the disk has: a queue's consumers wait for it, who asks for one does not."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from chordmq.broker.broker import Broker
from chordmq.broker.flusher import Flusher
from chordmq.broker.names import Names
from chordmq.broker.partition import Partition
from chordmq.broker.queues import follower
from chordmq.broker.queues import queue as machine
from chordmq.broker.queues.entries import Entry
from chordmq.broker.queues.queue import Queue, QueueFacts
from chordmq.broker.settings import BrokerSettings
from chordmq.clock import SystemClock
from chordmq.codecs.amqp.content import Envelope, new_properties
from tests.cold_disk import Disk

COUNT = 40
BODIES = [b"%d" % number for number in range(COUNT)]
WINDOW = 5


@pytest.fixture(autouse=True)
def _small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let queues keep few messages, and read few again at a time."""
    monkeypatch.setattr(machine, "WINDOW_MESSAGES", WINDOW)
    monkeypatch.setattr(follower, "REFILL_BYTES", 500)


@asynccontextmanager
async def running(directory: Path, disk: Disk) -> AsyncIterator[Broker]:
    """Give a broker that keeps no records in memory."""
    settings = BrokerSettings(log_memory_max_bytes=0)
    broker = Broker(directory, settings, SystemClock(), Flusher())
    work = asyncio.ensure_future(broker.run())
    broker.queues.open(Names(), ("/",))
    await broker.queues.loaded.wait()
    try:
        yield broker
    finally:
        disk.may_go_on.set()
        work.cancel()
        await asyncio.wait([work])
        broker.close()


class Taker:
    """A consumer that takes what it gets, up to a number."""

    in_bulk = None
    priority = 0
    tag = client_id = ""
    no_ack = True

    def __init__(self, room: int = COUNT) -> None:
        self.bodies: list[bytes] = []
        self.room = room

    def has_room(self) -> bool:
        return len(self.bodies) < self.room

    def deliver(self, queue: Queue, entry: Entry) -> None:
        assert entry.body is not None
        self.bodies.append(entry.body)
        queue.finish(entry)

    def cancelled(self) -> None:
        """Let it be."""

    async def all(self) -> list[bytes]:
        """Wait until there is no more room."""
        async with asyncio.timeout(60):
            while self.has_room():  # noqa: ASYNC110 - nobody says when
                await asyncio.sleep(0)
        return self.bodies


async def declared(broker: Broker) -> Queue:
    """Return a queue that holds the messages, a few of them in memory."""
    vhost = broker.queues.vhosts["/"]
    queue = await broker.queues.declare_queue(
        vhost, QueueFacts(vhost="/", name="q", durable=True), None
    )
    for body in BODIES:
        envelope = Envelope("/", "", "q", new_properties({}, 0))
        await broker.queues.publishing.publish(vhost, envelope, body)
    await counted(queue)
    return queue


async def counted(queue: Queue) -> None:
    """Wait until a queue knows of the messages."""
    async with asyncio.timeout(60):
        while queue.ready < COUNT:  # noqa: ASYNC110 - nobody says when
            await asyncio.sleep(0)


async def waiting(broker: Broker, times: int = 1) -> None:
    """Wait until somebody waits for the disk."""
    async with asyncio.timeout(60):
        while broker.shared.read_ahead.fetched < times:  # noqa: ASYNC110 - nobody says when
            await asyncio.sleep(0)


async def brought(broker: Broker) -> None:
    """Wait until the disk is asked for nothing, and who waited for it has looked again."""
    async with asyncio.timeout(60):
        while broker.shared.read_ahead._under_way:  # noqa: ASYNC110 - nobody says when
            await asyncio.sleep(0)
    for _ in range(3):
        await asyncio.sleep(0)


@pytest.fixture
async def broker(tmp_path: Path, disk: Disk) -> AsyncIterator[Broker]:
    async with running(tmp_path, disk) as broker:
        yield broker


@pytest.fixture
async def queue(broker: Broker, disk: Disk) -> Queue:
    """Give a queue most of whose messages only the disk has."""
    disk.is_warm = True
    queue = await declared(broker)
    disk.is_warm = False
    return queue


def source_of(queue: Queue) -> Partition:
    [partition] = queue.sources
    return partition


async def test_consumers_of_a_queue_wait_for_the_disk_and_get_everything_in_order(
    broker: Broker, queue: Queue, disk: Disk
) -> None:
    """D2, E4: a queue that has its window's messages in memory gives those at once."""
    taker = Taker()
    broker.queues.consume(queue, taker, exclusive=False)
    queue.pump()
    await waiting(broker)
    await asyncio.sleep(0)
    assert taker.bodies == BODIES[:WINDOW]
    disk.may_go_on.set()
    assert await taker.all() == BODIES
    assert (queue.ready, queue.unacked) == (0, 0)


async def test_messages_that_come_meanwhile_come_last(
    broker: Broker, queue: Queue, disk: Disk
) -> None:
    """D2, E4: publishers do not wait for the disk."""
    taker = Taker(COUNT + 1)
    broker.queues.consume(queue, taker, exclusive=False)
    queue.pump()
    await waiting(broker)
    envelope = Envelope("/", "", "q", new_properties({}, 0))
    await broker.queues.publishing.publish(broker.queues.vhosts["/"], envelope, b"new")
    assert taker.bodies == BODIES[:WINDOW]
    disk.may_go_on.set()
    assert await taker.all() == [*BODIES, b"new"]


async def test_a_queue_is_emptied_from_memory_that_is_short(
    broker: Broker, queue: Queue, disk: Disk
) -> None:
    """D2: pages that are gone again at once are not waited for twice."""
    disk.forgets = True
    disk.may_go_on.set()
    taker = Taker()
    broker.queues.consume(queue, taker, exclusive=False)
    queue.pump()
    assert await taker.all() == BODIES
    assert 1 <= broker.shared.read_ahead.fetched <= COUNT


async def test_who_asks_for_messages_one_by_one_gets_them_at_once(
    broker: Broker, queue: Queue, disk: Disk
) -> None:
    """E4: nothing would mean that the queue is empty."""
    entries = [queue.get() for _ in range(COUNT)]
    assert [entry and entry.body for entry in entries] == BODIES
    assert queue.get() is None
    assert not broker.shared.read_ahead.fetched


async def test_who_asks_is_served_beside_consumers_that_wait(
    broker: Broker, queue: Queue, disk: Disk
) -> None:
    """E4: each message goes to one of them."""
    taker = Taker(COUNT - 1)
    broker.queues.consume(queue, taker, exclusive=False)
    queue.pump()
    await waiting(broker)
    entry = queue.get()
    assert entry is not None
    assert entry.body == BODIES[WINDOW]
    disk.may_go_on.set()
    assert await taker.all() == [one for one in BODIES if one != BODIES[WINDOW]]


async def test_consumers_that_must_not_wait_do_not(
    broker: Broker, queue: Queue, disk: Disk
) -> None:
    """E4: those that drain their credit."""
    taker = Taker()
    broker.queues.consume(queue, taker, exclusive=False)
    queue.pump(may_wait=False)
    assert taker.bodies == BODIES
    assert not broker.shared.read_ahead.fetched


async def test_a_consumer_that_leaves_meanwhile_leaves_all_to_the_next(
    broker: Broker, queue: Queue, disk: Disk
) -> None:
    """E4: nothing is lost or given twice."""
    gone, taker = Taker(), Taker(COUNT - WINDOW)
    broker.queues.consume(queue, gone, exclusive=False)
    queue.pump()
    await waiting(broker)
    broker.queues.leave(queue, gone)
    broker.queues.consume(queue, taker, exclusive=False)
    queue.pump()
    assert not taker.bodies
    disk.may_go_on.set()
    assert await taker.all() == BODIES[WINDOW:]
    assert gone.bodies == BODIES[:WINDOW]


@pytest.mark.parametrize("what", ["queue", "topic"])
async def test_a_queue_or_topic_that_is_deleted_meanwhile_does_no_harm(
    broker: Broker, queue: Queue, disk: Disk, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    """E4: nobody is given what is gone, and other queues go on."""
    faults: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
    taker, partition = Taker(), source_of(queue)
    broker.queues.consume(queue, taker, exclusive=False)
    queue.pump()
    await waiting(broker)
    if what == "queue":
        await broker.queues.delete_queue(queue)
    else:
        await broker.topics.delete(partition.topic)
    disk.may_go_on.set()
    await brought(broker)
    assert taker.bodies == BODIES[:WINDOW]
    assert not faults
    assert not [one for one in caplog.records if one.levelname == "ERROR"]


async def test_a_queue_that_is_read_again_after_a_restart_waits_for_the_disk(
    tmp_path: Path, disk: Disk
) -> None:
    """D2, E4: other queues are served; then it has everything, in order."""
    disk.is_warm = True
    async with running(tmp_path, disk) as broker:
        await declared(broker)
        await broker.queues.settle()
    disk.is_warm = False
    disk.may_go_on.clear()
    async with running(tmp_path, disk) as broker:
        vhost = broker.queues.vhosts["/"]
        queue, taker = vhost.queues["q"], Taker()
        broker.queues.consume(queue, taker, exclusive=False)
        await waiting(broker)
        assert not taker.bodies
        disk.may_go_on.set()
        assert await taker.all() == BODIES
