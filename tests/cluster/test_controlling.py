"""Controllers on one store: one at a time, another when it goes, and none that is too late."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from chordmq.clock import SystemClock
from chordmq.cluster.controller import ControllerSettings
from chordmq.cluster.controlling import Controlling
from chordmq.cluster.elections import Rules
from chordmq.cluster.image import Image
from chordmq.cluster.members import Members
from chordmq.cluster.metastore.store import Put
from chordmq.cluster.registration import Registration, Standing
from chordmq.cluster.state import (
    BrokerRegistration,
    PartitionState,
    TopicState,
    decode,
    encode,
    partition_key,
    topic_key,
)
from tests.cluster.unreliable_store import UnreliableStore

TOPIC = bytes(range(16))
PATIENCE_S = 60.0


class Broker:
    """What a broker needs to be a controller, and nothing else."""

    def __init__(self, image: Image, number: int) -> None:
        self.image = image
        self.members = Members(image, number, is_alone=False)
        standing = Standing(number, BrokerRegistration(uuid=f"u{number}"), lease_s=60)
        self.registration = Registration(image, standing, SystemClock(), rules)
        self.controlling = Controlling(
            image,
            self.members,
            self.registration,
            ControllerSettings(rebalance=False),
            SystemClock(),
        )


def rules(_topic: bytes) -> Rules:
    return Rules()


@asynccontextmanager
async def running(store: UnreliableStore, number: int) -> AsyncIterator[Broker]:
    broker = Broker(await Image.load(store), number)
    await broker.registration.register()
    await broker.registration.appear()
    tasks = [
        asyncio.ensure_future(broker.image.run()),
        asyncio.ensure_future(broker.controlling.run("c", rules)),
    ]
    try:
        yield broker
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def until_led_by(store: UnreliableStore, leader: int) -> PartitionState:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            entry = await store.get(partition_key(TOPIC, 0))
            if entry and (state := decode(entry, PartitionState)).leader == leader:
                return state
            await asyncio.sleep(0.01)


async def until_controlled(broker: Broker, by: int) -> None:
    await until(lambda: broker.members.controller() == by)


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            if is_so():
                return
            await asyncio.sleep(0.01)


async def make_topic(store: UnreliableStore, state: PartitionState) -> None:
    topic = TopicState(id=TOPIC.hex(), partitions=1)
    await store.store.commit(
        [], [Put(partition_key(TOPIC, 0), encode(state)), Put(topic_key("t"), encode(topic))]
    )


async def test_one_broker_controls_and_another_takes_over(shared_store: UnreliableStore) -> None:
    async with running(shared_store, 1) as first, running(shared_store, 2) as second:
        await until_controlled(second, 1)
        await make_topic(shared_store, PartitionState(replicas=(1, 2), leader=1, isr=(1, 2)))

        await shared_store.revoke(first.registration.lease)  # as if it had died

        await until_controlled(second, 2)
        state = await until_led_by(shared_store, 2)
        assert state.isr == (2,)
        assert second.controlling.elections == 1


async def test_partitions_whose_topic_never_came_are_removed(
    shared_store: UnreliableStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A9: a creation that was cut off half-way leaves nothing for ever."""
    monkeypatch.setattr("chordmq.cluster.controlling.ORPHAN_S", 0.0)
    state = encode(PartitionState(replicas=(1,), leader=1, isr=(1,)))
    lost = bytes(16)
    await make_topic(shared_store, PartitionState(replicas=(1,), leader=1, isr=(1,)))
    await shared_store.store.commit([], [Put(partition_key(lost, i), state) for i in range(3)])
    async with running(shared_store, 1) as broker:
        await until(lambda: not list(broker.image.under(f"parts/{lost.hex()}")))
        assert await shared_store.get(partition_key(lost, 2)) is None
        assert await shared_store.get(partition_key(TOPIC, 0)) is not None


async def test_a_controller_that_was_replaced_can_change_nothing(
    shared_store: UnreliableStore,
) -> None:
    """Two controllers at once (the lease is no lock): the one whose key is gone loses."""
    async with running(shared_store, 1) as first, running(shared_store, 2) as second:
        await until_controlled(second, 1)
        shared_store.tells = lambda event: False  # the first hears nothing any more
        await shared_store.revoke(first.registration.lease)
        await second.image.refresh()
        await until_controlled(second, 2)
        assert first.members.controller() == 1

        await make_topic(shared_store, PartitionState(replicas=(2, 1), leader=2, isr=(1, 2)))
        await first.image.refresh()
        await second.image.refresh()

        state = await until_led_by(shared_store, 2)
        assert state.leader_epoch == 0


async def test_partitions_of_no_topic_are_left_alone(shared_store: UnreliableStore) -> None:
    """A topic exists from the commit of its own entry, and not before."""
    async with running(shared_store, 1) as only:
        await until_controlled(only, 1)
        orphan = Put(partition_key(bytes(16), 0), encode(PartitionState(replicas=(9,), leader=9)))
        await shared_store.store.commit([], [orphan])
        await make_topic(shared_store, PartitionState(replicas=(9, 1), leader=9, isr=(1, 9)))

        await until_led_by(shared_store, 1)

        entry = await shared_store.get(orphan.key)
        assert entry is not None
        assert entry.value == orphan.value


async def test_many_partitions_are_led_by_others_in_few_commits(
    shared_store: UnreliableStore,
) -> None:
    shared_store.operations_max = 100
    count = 250
    async with running(shared_store, 1) as first, running(shared_store, 2) as second:
        await until_controlled(second, 1)
        state = PartitionState(replicas=(2, 1), leader=2, isr=(1, 2))
        puts = [Put(partition_key(TOPIC, index), encode(state)) for index in range(count)]
        topic = TopicState(id=TOPIC.hex(), partitions=count)
        await shared_store.store.commit([], [*puts, Put(topic_key("t"), encode(topic))])
        await first.image.refresh()
        before = shared_store.commits

        await shared_store.revoke(second.registration.lease)
        await until_led_by(shared_store, 1)
        await until(lambda: first.controlling.elections == count)

        assert shared_store.commits - before == 3
