"""A cursor of another node is used as one of this node: what is asked for comes a little later."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from chordmq.broker.broker import Broker
from chordmq.broker.cursors.cursor import Cursor, Delivery
from chordmq.broker.cursors.cursors import EARLIEST
from chordmq.broker.cursors.exchange import Exchange
from chordmq.broker.cursors.records import CursorKey
from chordmq.broker.cursors.routed import RoutedCursor
from chordmq.broker.cursors.shared_cursor import Outcome
from chordmq.broker.cursors.wishes import Leaving, Place, Settled, Settling, Taking
from chordmq.broker.flusher import Flusher
from chordmq.broker.settings import BrokerSettings
from chordmq.clock import SystemClock
from chordmq.cluster.link import Caller
from chordmq.errors import CoordinatorNotAvailable, InvalidRecordState
from chordmq.records.record import NewRecord, build_batch
from tests.broker.replicated import until

HERE, THERE = 1, 2


class Home:
    """The node that keeps the cursor, and the way of another node to it, without a network."""

    def __init__(self, broker: Broker, cursor: Cursor) -> None:
        self.cursor = cursor
        self.leader = (THERE, 0)
        self.is_reachable = True
        self.node_name = "here"
        self.asking: set[tuple[str, bytes, str]] = set()
        self.told = 0
        self._tasks: set[asyncio.Task[None]] = set()
        nodes: Any = SimpleNamespace(
            answer=self._keep, on=lambda *_: None, on_lost=[], send=self._send
        )
        self.kept_there = Exchange(nodes, broker.topics, self)  # type: ignore[arg-type]
        self.exchange: Any = SimpleNamespace(ask=self.ask)
        self.routed = RoutedCursor(cursor.key, cursor.partition, self)

    def _keep(self, kind: int, handler: Any) -> None:
        self._serve = handler

    def _send(self, broker: int, kind: int, body: Any) -> bool:
        self.told += 1
        self.routed.look_again()
        return True

    async def ask(self, partition: object, wish: object) -> memoryview:
        if not self.is_reachable:
            raise CoordinatorNotAvailable("no link")
        parts = await self._serve(Caller(HERE, 7), memoryview(msgspec.msgpack.encode(wish)))
        await asyncio.sleep(0)  # what is told meanwhile comes first
        return memoryview(b"".join(parts))

    def kept(self, key: CursorKey) -> Cursor:
        return self.cursor

    def here(self, key: CursorKey) -> Cursor | None:
        return self.cursor if self.leader[0] == HERE else None

    def leader_of(self, key: CursorKey) -> tuple[int, int]:
        return self.leader

    def start(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


class Sleeper:
    def __init__(self) -> None:
        self.woken = asyncio.Event()

    def wake(self) -> None:
        self.woken.set()


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    broker = Broker(tmp_path, BrokerSettings(), SystemClock(), Flusher())
    running = asyncio.ensure_future(broker.run())
    await broker.cursors.loaded.wait()
    await broker.topics.create("jobs", 1)
    cursor = await broker.cursors.open_here("workers", "jobs", 0, EARLIEST)
    yield Home(broker, cursor)
    running.cancel()
    await asyncio.wait([running])
    broker.close()


async def publish(home: Home, *values: bytes) -> None:
    partition = home.cursor.partition
    appended = partition.append(memoryview(build_batch([NewRecord(0, None, v) for v in values])))
    committed = partition.committed(appended.next_offset)
    if committed is not None:
        await committed


def values(delivery: Delivery) -> list[bytes | None]:
    return [record.value for record, _ in delivery.records()]


async def take(home: Home, holder: str = "x", count: int = 10) -> list[bytes | None]:
    """Wait until something has come for a consumer, and return it."""
    sleeper = Sleeper()
    async with asyncio.timeout(60):
        while True:
            sleeper.woken.clear()
            home.routed.wait(sleeper)
            if found := values(home.routed.take(holder, count, 1 << 20)):
                return found
            await sleeper.woken.wait()


async def test_records_come_when_they_are_there(home: Home) -> None:
    await publish(home, b"a", b"b", b"c")
    assert await take(home, count=2) == [b"a", b"b"]
    waiting = asyncio.ensure_future(take(home, "y"))
    assert await waiting == [b"c"]
    later = asyncio.ensure_future(take(home))
    await until(lambda: home.cursor.partition.readers > 0)
    await publish(home, b"d")
    assert await later == [b"d"]
    assert home.routed.lag == 4


async def test_no_more_is_given_than_was_asked_for_last(home: Home) -> None:
    await publish(home, b"a", b"b", b"c")
    assert not home.routed.take("x", 3, 1 << 20).taken
    await until(lambda: not home.asking)
    assert [values(home.routed.take("x", 1, 1 << 20)) for _ in range(3)] == [[b"a"], [b"b"], [b"c"]]


async def test_answers_count_where_the_cursor_is_kept(home: Home) -> None:
    await publish(home, b"a", b"b")
    await take(home)
    await home.routed.settle("x", 0, 0, [Outcome.ACCEPT])
    assert home.cursor.start == 1
    with pytest.raises(InvalidRecordState):
        await home.routed.settle("x", 0, 0, [Outcome.ACCEPT])
    with pytest.raises(InvalidRecordState):
        home.cursor.settle("x", 1, 1, [Outcome.ACCEPT])  # a consumer of another node


async def test_who_leaves_gives_all_back_also_what_is_on_its_way(home: Home) -> None:
    await publish(home, b"a", b"b")
    await take(home, "x", 1)
    home.routed.take("x", 1, 1 << 20)
    home.routed.leave("x")
    await until(lambda: home.cursor.machine.in_flight == 0)
    assert set(await take(home, "y")) == {b"a", b"b"}


async def test_a_node_that_cannot_be_asked_is_asked_again(home: Home) -> None:
    await publish(home, b"a")
    home.is_reachable = False
    waiting = asyncio.ensure_future(take(home))
    await until(lambda: not home.asking)
    home.is_reachable = True
    assert await waiting == [b"a"]


async def test_the_same_goes_on_when_this_node_keeps_the_cursor(home: Home) -> None:
    await publish(home, b"a")
    home.routed.take("x", 1, 1 << 20)
    await until(lambda: not home.asking)
    home.leader = (HERE, 1)
    home.cursor.leave("here/x")
    await until(lambda: home.cursor.machine.in_flight == 0)
    home.routed.look_again()
    assert await take(home) == [b"a"]
    await home.routed.settle("x", 0, 0, [Outcome.ACCEPT])
    assert (home.routed.start, home.routed.lag) == (1, 0)


async def test_consumers_leave_when_their_node_dies(home: Home) -> None:
    await publish(home, b"a")
    await take(home)
    home.kept_there.look_who_lives({HERE: 7, THERE: 8})
    assert home.cursor.machine.in_flight == 1
    home.kept_there.look_who_lives({HERE: 9, THERE: 8})
    await until(lambda: home.cursor.machine.in_flight == 0)


async def test_wishes_are_those_of_the_consumer(home: Home) -> None:
    place = Place(*home.cursor.key)
    await publish(home, b"a")
    await home.ask(None, Taking(place, "z", 1, 100, False))
    await home.ask(None, Settling(place, "z", (Settled(0, 0, (Outcome.RELEASE,)),)))
    await home.ask(None, Leaving(place, "z"))
    assert home.cursor.machine.in_flight == 0
