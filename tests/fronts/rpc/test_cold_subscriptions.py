"""Subscriptions of procedure-call clients that read what only the disk has."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from chordmq.broker.broker import Broker
from chordmq.broker.names import NAME_HEADER, Names
from chordmq.broker.security.principal import ANONYMOUS
from chordmq.clock import SystemClock
from chordmq.errors import UnknownTopic
from chordmq.fronts.listener import Listener
from chordmq.fronts.rpc.front import RpcFront
from chordmq.fronts.rpc.session import Session, Who
from chordmq.fronts.rpc.settings import RpcSettings
from chordmq.fronts.rpc.subscriptions import Page, Subscription, Wanted, subscribe
from chordmq.records.record import NewRecord
from tests.broker.running_broker import running
from tests.cold_disk import Disk
from tests.fronts.cold import (
    NOTHING_IN_MEMORY,
    PATIENCE_S,
    Looks,
    fetched_for_somebody_else,
    over,
    turns,
    waiting,
)

TOPICS = ["plant.a", "plant.b"]
OLD = {topic: [b"%s %d" % (topic.encode(), n) for n in range(5)] for topic in TOPICS}
FILTERED = Wanted(topic="plant/+/heat")
OWN = Wanted(topic="plant.a")
SHARED = Wanted(topic="plant.a", shared="g")

everybody = pytest.mark.parametrize(
    "wanted", [FILTERED, OWN, SHARED], ids=["filter", "own", "shared"]
)


async def stored(broker: Broker, topic: str, value: bytes, level: str = "heat") -> None:
    """Store a message under a name with levels."""
    name = f"{topic.replace('.', '/')}/{level}"
    header = (NAME_HEADER, name.encode())
    await broker.append_records(topic, 0, [NewRecord(1, level.encode(), value, (header,))])


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    async with running(tmp_path, SystemClock(), NOTHING_IN_MEMORY) as broker:
        for topic in TOPICS:
            await broker.topics.create(topic, 1, settings={"retention.ms": "-1"})
            for value in OLD[topic]:
                await stored(broker, topic, value)
        yield broker


@pytest.fixture
def front(broker: Broker) -> RpcFront:
    settings = RpcSettings()
    listener = Listener(settings, SystemClock(), "grpc")
    front = RpcFront(
        name="grpc", broker=broker, listener=listener, settings=settings, names=Names()
    )
    broker.topics.watchers.append(front.look_again)
    return front


@pytest.fixture
def session(front: RpcFront) -> Session:
    session = Session(front, Who(ANONYMOUS, "10.0.0.1", "test", "1"))
    front.sessions[session] = None
    return session


class Reader:
    """Takes all pages of a subscription, until it is stopped."""

    def __init__(self, subscription: Subscription) -> None:
        self.subscription = subscription
        self.pages: list[Page] = []
        self.task = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        while True:
            self.pages.append(await self.subscription.next())

    def values(self, topic: str) -> list[bytes | None]:
        return [row.record.value for page in self.pages if page.topic == topic for row in page.rows]

    async def has(self, count: int) -> None:
        """Wait until so many messages have come."""
        async with asyncio.timeout(PATIENCE_S):
            while sum(len(page.rows) for page in self.pages) < count:  # noqa: ASYNC110
                await asyncio.sleep(0)

    async def stop(self) -> None:
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task


async def opened(session: Session, wanted: Wanted) -> Reader:
    return Reader(await subscribe(session, wanted))


def topics_of(wanted: Wanted) -> list[str]:
    return TOPICS if wanted is FILTERED else [wanted.topic]


@everybody
async def test_others_are_served_while_a_subscriber_waits_for_the_disk(
    broker: Broker, session: Session, disk: Disk, looks: Looks, wanted: Wanted
) -> None:
    """E5, D8: nobody else waits for it, and who does is not asked again and again."""
    topics = topics_of(wanted)
    reader = await opened(session, wanted)
    await waiting(broker, len(topics))
    for topic in topics:
        await stored(broker, topic, b"new")
    assert await looks.in_many_turns() == 0
    assert reader.pages == []
    disk.may_go_on.set()
    await reader.has(6 * len(topics))
    for topic in topics:
        await stored(broker, topic, b"last")
    await reader.has(7 * len(topics))
    for topic in topics:
        assert reader.values(topic) == [*OLD[topic], b"new", b"last"]
    await reader.stop()


async def test_what_a_filter_does_not_want_is_passed_over_on_the_disk(
    broker: Broker, session: Session, disk: Disk
) -> None:
    """E2: also where memory forgets it at once."""
    disk.forgets = True
    disk.may_go_on.set()
    for topic in TOPICS:
        await stored(broker, topic, b"unwanted", level="cold")
        await stored(broker, topic, b"new")
    reader = await opened(session, FILTERED)
    await reader.has(12)
    for topic in TOPICS:
        assert reader.values(topic) == [*OLD[topic], b"new"]
    await reader.stop()


@everybody
async def test_records_that_do_not_stay_in_memory_are_delivered_all_the_same(
    session: Session, disk: Disk, wanted: Wanted
) -> None:
    """E5: where memory is short, waiting again and again would take for ever."""
    disk.forgets = True
    disk.may_go_on.set()
    reader = await opened(session, wanted)
    await reader.has(5 * len(topics_of(wanted)))
    for topic in topics_of(wanted):
        assert reader.values(topic) == OLD[topic]
    await reader.stop()


@everybody
async def test_a_subscriber_is_woken_by_what_was_brought_for_somebody_else(
    broker: Broker, session: Session, disk: Disk, wanted: Wanted
) -> None:
    """D8: the disk is asked once."""
    fetched_for_somebody_else(broker, "plant.a")
    reader = await opened(session, wanted)
    await turns()
    disk.may_go_on.set()
    await reader.has(5 * len(topics_of(wanted)))
    assert reader.values("plant.a") == OLD["plant.a"]
    assert broker.shared.read_ahead.fetched == len(topics_of(wanted))
    await reader.stop()


@pytest.mark.parametrize("wanted", [OWN, SHARED], ids=["own", "shared"])
async def test_a_topic_that_is_deleted_meanwhile_ends_its_subscriptions(
    broker: Broker, session: Session, disk: Disk, no_complaints: None, wanted: Wanted
) -> None:
    reader = await opened(session, wanted)
    await waiting(broker)
    await broker.topics.delete("plant.a")
    with pytest.raises(UnknownTopic):
        await reader.task
    disk.may_go_on.set()
    await turns()
    assert reader.pages == []
    session.close()


async def test_of_two_topics_one_may_be_deleted_meanwhile(
    broker: Broker, session: Session, disk: Disk, no_complaints: None
) -> None:
    """E2: a filter goes on with the other."""
    reader = await opened(session, FILTERED)
    await waiting(broker, 2)
    await broker.topics.delete("plant.a")
    disk.may_go_on.set()
    await reader.has(5)
    assert (reader.values("plant.a"), reader.values("plant.b")) == ([], OLD["plant.b"])
    await reader.stop()
    session.close()


@everybody
async def test_a_subscriber_may_leave_while_it_waits_for_the_disk(
    broker: Broker,
    front: RpcFront,
    session: Session,
    disk: Disk,
    no_complaints: None,
    wanted: Wanted,
) -> None:
    """E5: what it would have got goes to the next one."""
    tasks = asyncio.all_tasks()
    reader = await opened(session, wanted)
    await waiting(broker, len(topics_of(wanted)))
    await reader.stop()
    session.close()
    await over(tasks)
    assert not any(broker.partition(topic, 0).readers for topic in TOPICS)
    disk.may_go_on.set()
    other = await opened(Session(front, Who(ANONYMOUS, "10.0.0.1", "test", "2")), wanted)
    await other.has(5 * len(topics_of(wanted)))
    assert other.values("plant.a") == OLD["plant.a"]
    await other.stop()
