"""Requests to several partitions in turn are taken without being read, each to its own."""

import asyncio
import threading

import pytest

from chordmq.broker.broker import Broker
from chordmq.broker.security.acl import Effect, Kind, Operation, Rule
from chordmq.broker.topic import Topic
from chordmq.fronts.kafka import repeats
from chordmq.fronts.kafka.call import KafkaFront
from chordmq.fronts.kafka.gathering import SMALL
from chordmq.fronts.kafka.repeats import Likeness
from chordmq.storage.flush import Flush
from tests.fronts.kafka.wire import Wire, answered, connected, produce, stored

UNKNOWN_TOPIC, NOT_LEADER, DENIED = 3, 6, 29
PARTITIONS = 3


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Give a list that says of each request whether it was taken without being read."""
    take, seen = Likeness.take, list[bool]()

    def noted(self: Likeness, *arguments: object) -> object:
        place = take(self, *arguments)  # type: ignore[arg-type]
        seen.append(place is not None)
        return place

    monkeypatch.setattr(Likeness, "take", noted)
    return seen


async def made(broker: Broker, flush: str = "os") -> Topic:
    return await broker.topics.create("spread", PARTITIONS, 1, {"flush": flush})


async def asked(wire: Wire, request: bytes) -> tuple[int, int]:
    await wire.send(request)
    return await answered(wire)


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("flush", ["os", "disk"])
@pytest.mark.parametrize("size", [1, 2 * SMALL])
async def test_each_batch_goes_to_its_own_partition(
    broker: Broker, front: KafkaFront, taken: list[bool], acks: int, flush: str, size: int
) -> None:
    """C1: as if each request had been read."""
    topic = await made(broker, flush)
    async with connected(front) as wire:
        for number in range(5):
            for index in range(PARTITIONS):
                request = produce("spread", b"%d" % index * size, acks=acks, index=index)
                assert await asked(wire, request) == (0, number)
    for index, partition in enumerate(topic.partitions):
        assert stored(partition) == [b"%d" % index * size] * 5
    assert taken.count(True) == 4 * PARTITIONS - 1  # the very first one makes nothing known


async def test_requests_that_came_together_are_answered_in_their_order(
    broker: Broker, front: KafkaFront, taken: list[bool]
) -> None:
    """C1: large ones and small ones, of all partitions."""
    topic = await made(broker, "disk")
    sizes = [1, 2 * SMALL, 1, 1, 3 * SMALL, 2 * SMALL] * 3
    async with connected(front) as wire:
        for index in (0, 0, 1, 2):
            await asked(wire, produce("spread", b"first", index=index))
        numbers = range(len(sizes))
        await wire.send(
            b"".join(
                produce("spread", b"%c" % (65 + n) * sizes[n], index=n % PARTITIONS)
                for n in numbers
            )
        )
        answers = [await answered(wire) for _ in numbers]
    assert answers == [(0, (2 if n % PARTITIONS == 0 else 1) + n // PARTITIONS) for n in numbers]
    for index, partition in enumerate(topic.partitions):
        sent = [b"%c" % (65 + n) * sizes[n] for n in numbers if n % PARTITIONS == index]
        assert [value for value in stored(partition) if value != b"first"] == sent
    assert taken.count(True) >= len(sizes)


async def test_a_partition_that_does_not_exist_is_refused_among_others(
    broker: Broker, front: KafkaFront, taken: list[bool]
) -> None:
    """C4: and nothing becomes known of it."""
    await made(broker)
    async with connected(front) as wire:
        for number in range(3):
            assert await asked(wire, produce("spread", index=0)) == (0, number)
            assert await asked(wire, produce("spread", index=PARTITIONS)) == (UNKNOWN_TOPIC, -1)
            assert await asked(wire, produce("spread", index=1)) == (0, number)
    assert taken.count(True) == 3  # what was asked for first becomes known the second time


async def test_other_acknowledgements_of_another_partition_are_not_those_of_the_last(
    broker: Broker, front: KafkaFront, taken: list[bool]
) -> None:
    """C1: who asks for none gets none, whatever is known of the partition."""
    topic = await made(broker)
    async with connected(front) as wire:
        for number in range(3):
            assert await asked(wire, produce("spread", b"all", index=0)) == (0, number)
            assert await asked(wire, produce("spread", b"one", acks=1, index=1)) == (0, number)
            await wire.send(produce("spread", b"none", acks=0, index=2))
        assert await asked(wire, produce("spread", b"all", index=0)) == (0, 3)
    assert [len(stored(partition)) for partition in topic.partitions] == [4, 3, 3]


async def test_a_right_that_is_taken_away_ends_for_all_partitions(
    broker: Broker, front: KafkaFront
) -> None:
    """C9: what was allowed once is asked again when rules change."""
    await made(broker)
    allowed, denied = (
        Rule(
            kind=Kind.TOPIC,
            name="spread",
            principal="User:*",
            operation=Operation.WRITE,
            effect=effect,
        )
        for effect in (Effect.ALLOW, Effect.DENY)
    )
    broker.permissions.is_enforced = True
    broker.permissions.acl.change(add=[allowed])
    async with connected(front) as wire:
        for number in range(2):
            for index in range(PARTITIONS):
                assert await asked(wire, produce("spread", index=index)) == (0, number)
        broker.permissions.acl.change(add=[denied])
        for index in range(PARTITIONS):
            assert await asked(wire, produce("spread", index=index)) == (DENIED, -1)
        broker.permissions.acl.change(remove=[denied])
        for index in range(PARTITIONS):
            assert await asked(wire, produce("spread", index=index)) == (0, 2)


async def test_a_connection_knows_only_so_many_partitions(
    broker: Broker, front: KafkaFront, taken: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """C11: the rest is read, and stored all the same."""
    monkeypatch.setattr(repeats, "PLACES_MAX", 2)
    topic = await made(broker)
    async with connected(front) as wire:
        for number in range(4):
            for index in range(PARTITIONS):
                assert await asked(wire, produce("spread", index=index)) == (0, number)
    assert [len(stored(partition)) for partition in topic.partitions] == [4] * PARTITIONS
    assert taken.count(True) == 2 * 3


class HeldUp:
    """Flushes that wait until they are let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._gate = threading.Event()
        sync = Flush.sync

        def held_up(flush: Flush) -> None:
            self._gate.wait()
            sync(flush)

        monkeypatch.setattr(Flush, "sync", held_up)

    def let_go(self) -> None:
        self._gate.set()


async def waiting(wire: Wire, topic: Topic, monkeypatch: pytest.MonkeyPatch) -> HeldUp:
    """Have a request wait for the disk that is like those before it."""
    for number in range(3):
        assert await asked(wire, produce("spread")) == (0, number)
    held_up = HeldUp(monkeypatch)
    await wire.send(produce("spread", b"late"))
    while topic.partitions[0].log.end_offset < 4:  # noqa: ASYNC110 - nobody says when
        await asyncio.sleep(0)
    return held_up


async def test_who_waits_for_the_disk_hears_that_the_topic_is_gone(
    broker: Broker, front: KafkaFront, taken: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """C4: at once, and not when its client has lost its patience."""
    topic = await made(broker, "disk")
    async with connected(front) as wire:
        held_up = await waiting(wire, topic, monkeypatch)
        deleting = asyncio.ensure_future(broker.topics.delete("spread"))
        assert await answered(wire) == (UNKNOWN_TOPIC, -1)
        held_up.let_go()
        await deleting
    assert taken.count(True) == 2


async def test_who_waits_for_the_disk_hears_that_another_leads(
    broker: Broker, front: KafkaFront, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A9: nobody knows whether that one has the batch."""
    topic = await made(broker, "disk")
    async with connected(front) as wire:
        held_up = await waiting(wire, topic, monkeypatch)
        topic.partitions[0].begin_epoch()
        assert await answered(wire) == (NOT_LEADER, -1)
        held_up.let_go()
        assert await asked(wire, produce("spread")) == (0, 4)


async def test_who_hangs_up_while_the_disk_works_is_forgotten(
    broker: Broker, front: KafkaFront, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C12: and what it sent is stored."""
    topic = await made(broker, "disk")
    async with connected(front) as wire:
        held_up = await waiting(wire, topic, monkeypatch)
    held_up.let_go()
    async with connected(front) as wire:
        assert await asked(wire, produce("spread")) == (0, 4)
    assert len(stored(topic.partitions[0])) == 5
