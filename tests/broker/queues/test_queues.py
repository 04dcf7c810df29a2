"""Queues on a real broker: random histories with restarts, against a model of a few lines."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from chordmq.broker.broker import Broker
from chordmq.broker.flusher import Flusher
from chordmq.broker.names import Names
from chordmq.broker.queues import queue as machine
from chordmq.broker.queues.entries import Entry
from chordmq.broker.queues.exchanges import Binding, Exchange, topic_matches
from chordmq.broker.queues.plans import make_plan
from chordmq.broker.queues.queue import Queue, QueueFacts
from chordmq.broker.queues.virtual_host import VirtualHost
from chordmq.broker.settings import BrokerSettings
from chordmq.clock import SystemClock
from chordmq.codecs.amqp.content import Envelope, new_properties
from chordmq.errors import DeclaredOtherwise, InvalidRequest, QueueLocked, UnknownQueue
from chordmq.records.record import NewRecord, RecordRun

QUEUES, EXCHANGES = ("q0", "q1", "q2"), ("e0", "e1")
PATTERNS, KEYS = ("#", "a.*", "*.b", "a.b"), ("a.b", "a.c", "c.b", "d")
STEPS, RESTARTS = 60, 4


@asynccontextmanager
async def running(directory: Path) -> AsyncIterator[Broker]:
    """Give a broker; it ends as by a crash, without a last word of its queues."""
    broker = Broker(directory, BrokerSettings(), SystemClock(), Flusher())
    work = asyncio.ensure_future(broker.run())
    broker.queues.open(Names(), ("/",))
    await broker.queues.loaded.wait()
    try:
        yield broker
    finally:
        work.cancel()
        await asyncio.wait([work])
        broker.close()


async def handed_out(broker: Broker) -> None:
    """Wait until all that is committed is in its queues."""
    for topic in broker.topics:
        for partition in topic.partitions:
            position = broker.queues.following.position
            while position(partition) < partition.high_watermark:  # noqa: ASYNC110 (next turn)
                await asyncio.sleep(0)


class History:
    """A random client, and what it may expect to find in each queue."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.expected: dict[str, list[str]] = {}
        """Messages that must be there, in their order."""
        self.settled: dict[str, list[str]] = {}
        """Messages that were acknowledged since the log was last known to be up to date."""
        self.present: dict[str, list[str]] = {}
        self.bound: set[tuple[str, str, str]] = set()
        self.number = 0

    async def step(self, broker: Broker, vhost: VirtualHost) -> None:
        """Do something."""
        act = self.random.choice(
            (self.publish,) * 8 + (self.consume,) * 6 + (self.rebind,) * 2 + (self.renew,)
        )
        await act(broker, vhost)

    async def publish(self, broker: Broker, vhost: VirtualHost) -> None:
        """Publish some messages one way."""
        exchange, key = self.random.choice((*EXCHANGES, "")), self.random.choice(KEYS)
        if not exchange:
            key = self.random.choice(QUEUES)
        targets = {key} if not exchange else self._targets(exchange, key)
        numbers = range(self.number, self.number + self.random.randint(1, 9))
        self.number = numbers.stop
        bodies = [f"{exchange or key}:{number}" for number in numbers]
        envelope = Envelope("/", exchange, key, new_properties({}, 0))
        publishing = broker.queues.publishing
        if self.random.random() < 0.5:
            plan = await make_plan(publishing, vhost, envelope, lambda topic: None, 0)
            assert plan.partition is not None
            values = [body.encode() for body in bodies]
            run = RecordRun(plan.time_ms, plan.key, plan.headers, values)
            await publishing.appends.append(plan.partition, [run])
        else:
            for body in bodies:
                await publishing.publish(vhost, envelope, body.encode())
        for name in targets:
            self.expected[name] += bodies

    def _targets(self, exchange: str, key: str) -> set[str]:
        return {
            queue
            for source, queue, pattern in self.bound
            if source == exchange and topic_matches(pattern, key)
        }

    async def consume(self, broker: Broker, vhost: VirtualHost) -> None:
        """Take some messages of a queue, and acknowledge, give back or keep them."""
        await handed_out(broker)
        queue = vhost.queues[self.random.choice(QUEUES)]
        entries = [entry for _ in range(self.random.randint(1, 8)) if (entry := queue.get())]
        again: list[Entry] = []
        for entry in entries:
            if self.random.random() < 0.7:
                assert entry.body is not None
                body = entry.body.decode()
                queue.finish(entry)
                if body in self.expected[queue.name]:  # else a repetition after a restart
                    self.expected[queue.name].remove(body)
                self.settled[queue.name].append(body)
            else:
                again.append(entry)
        queue.requeue(again)

    async def rebind(self, broker: Broker, vhost: VirtualHost) -> None:
        """Bind a queue, or end a binding."""
        way = (
            self.random.choice(EXCHANGES),
            self.random.choice(QUEUES),
            self.random.choice(PATTERNS),
        )
        binding = Binding(source=way[0], destination=way[1], to_queue=True, key=way[2])
        if way in self.bound:
            self.bound.remove(way)
            await broker.queues.unbind(vhost, binding)
        else:
            self.bound.add(way)
            await broker.queues.bind(vhost, binding)

    async def renew(self, broker: Broker, vhost: VirtualHost) -> None:
        """Delete an exchange with its bindings, and declare it again."""
        name = self.random.choice(EXCHANGES)
        await broker.queues.delete_exchange(vhost, name, if_unused=False)
        self.bound = {way for way in self.bound if way[0] != name}
        await broker.queues.declare_exchange(vhost, Exchange(name=name, type="topic", durable=True))

    async def check(self, broker: Broker, vhost: VirtualHost) -> None:
        """Compare what is in the queues with what must, and may, be there."""
        await handed_out(broker)
        for name in QUEUES:
            queue = vhost.queues[name]
            entries = []
            while (entry := queue.get()) is not None:
                entries.append(entry)
            found = [(entry.body or b"").decode() for entry in entries]
            must, may = self.expected[name], {*self.expected[name], *self.settled[name]}
            assert set(must) <= set(found) <= may, name
            assert len(set(found)) == len(found), name
            for source in (*EXCHANGES, name):
                numbers = [int(b.split(":")[1]) for b in found if b.startswith(f"{source}:")]
                assert numbers == sorted(numbers), name
            queue.requeue(entries)
            assert queue.ready == len(found)
            self.present[name] = found

    def stored(self) -> None:
        """Take note that the log knows what was acknowledged; what came again is there to stay."""
        for name in QUEUES:
            must = self.expected[name]
            self.settled[name] = [body for body in self.present[name] if body not in must]


@pytest.mark.parametrize("seed", range(6))
async def test_restarts_lose_and_invent_nothing(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E4, A5: whatever is published, bound, unbound and acknowledged between restarts."""
    monkeypatch.setattr(machine, "WINDOW_MESSAGES", 7)
    history = History(seed)
    for number in range(RESTARTS):
        async with running(tmp_path) as broker:
            vhost = broker.queues.vhosts["/"]
            for name in EXCHANGES:
                wanted = Exchange(name=name, type="topic", durable=True)
                await broker.queues.declare_exchange(vhost, wanted)
            for name in QUEUES:
                facts = QueueFacts(vhost="/", name=name, durable=True)
                await broker.queues.declare_queue(vhost, facts, None)
                history.expected.setdefault(name, [])
                history.settled.setdefault(name, [])
            await history.check(broker, vhost)
            for _ in range(STEPS):
                await history.step(broker, vhost)
            await history.check(broker, vhost)
            if number % 2:
                await broker.queues.settle()
                history.stored()


async def test_a_declaration_must_be_the_same_again(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        vhost = broker.queues.vhosts["/"]
        facts = QueueFacts(vhost="/", name="q", durable=True, arguments={"x-max-length": 1})
        queue = await broker.queues.declare_queue(vhost, facts, None)
        assert await broker.queues.declare_queue(vhost, facts, None) is queue
        other = QueueFacts(vhost="/", name="q", durable=True)
        with pytest.raises(DeclaredOtherwise, match="arguments"):
            await broker.queues.declare_queue(vhost, other, None)
        wrong = QueueFacts(vhost="/", name="r", arguments={"x-max-length": "one"})
        with pytest.raises(InvalidRequest, match="x-max-length"):
            await broker.queues.declare_queue(vhost, wrong, None)


async def test_an_exclusive_queue_is_its_owner_s_and_goes_with_it(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        vhost, owner = broker.queues.vhosts["/"], object()
        facts = QueueFacts(vhost="/", name="q", exclusive=True)
        await broker.queues.declare_queue(vhost, facts, owner)
        with pytest.raises(QueueLocked):
            vhost.queue("q", object())
        broker.queues.disown(owner)
        await asyncio.sleep(0)
        with pytest.raises(UnknownQueue):
            vhost.queue("q", owner)


async def test_what_every_queue_is_done_with_is_trimmed(tmp_path: Path) -> None:
    """A6: topics made for queues keep what a queue holds, and for others what retention keeps."""
    async with running(tmp_path) as broker:
        vhost = broker.queues.vhosts["/"]
        queue: Queue = await broker.queues.declare_queue(
            vhost, QueueFacts(vhost="/", name="q", durable=True), None
        )
        envelope = Envelope("/", "", "q", new_properties({"timestamp_in_ms": 1}, 0))
        for _ in range(3):
            await broker.queues.publishing.publish(vhost, envelope, b"old")
        await handed_out(broker)
        partition = broker.partition("q", 0)
        first = queue.get()
        assert first is not None
        queue.finish(first)
        await broker.queues.trim()
        assert partition.log.start_offset == 1
        assert queue.ready == 2


async def test_topics_that_others_made_are_not_trimmed(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await broker.topics.create("q", 1)
        await broker.append_records("q", 0, [NewRecord(1, None, b"theirs")])
        facts = QueueFacts(vhost="/", name="q", durable=True)
        await broker.queues.declare_queue(broker.queues.vhosts["/"], facts, None)
        await broker.queues.trim()
        assert broker.partition("q", 0).log.start_offset == 0
