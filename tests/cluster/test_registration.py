"""A broker in the eyes of the others: its number, its epoch, its lease, its goodbye."""

import asyncio
import math
from dataclasses import replace

import pytest
from msgspec.structs import replace as struct_replace

from chordmq.clock import ManualClock, SystemClock
from chordmq.cluster import registration as module
from chordmq.cluster.elections import Rules
from chordmq.cluster.image import Image
from chordmq.cluster.metastore.store import Delete, Put, StoreConflict
from chordmq.cluster.registration import Registration, Standing, compares_for
from chordmq.cluster.state import (
    NO_LEADER,
    BrokerRegistration,
    Endpoint,
    Liveness,
    PartitionState,
    broker_key,
    decode,
    encode,
    live_key,
    partition_key,
)
from chordmq.errors import BrokerIdTaken, StoreUnavailable
from tests.cluster.unreliable_store import UnreliableStore

TOPIC = bytes(16)
ABOUT = BrokerRegistration(
    uuid="u1", endpoints={"kafka": Endpoint(host="h", port=1)}, boot="monday", incarnation="1"
)
STANDING = Standing(1, ABOUT, lease_s=60)


def durable(_topic: bytes) -> Rules:
    return Rules(min_in_sync=2)


def carefree(_topic: bytes) -> Rules:
    return Rules(min_in_sync=2, is_durable=False)


async def registered(
    store: UnreliableStore, standing: Standing = STANDING, rules: module.RulesOf = durable
) -> Registration:
    image = await Image.load(store)
    registration = Registration(image, standing, SystemClock(), rules)
    await registration.register()
    return registration


async def put(store: UnreliableStore, index: int, state: PartitionState) -> None:
    await store.store.commit([], [Put(partition_key(TOPIC, index), encode(state))])


async def get(store: UnreliableStore, index: int) -> PartitionState:
    entry = await store.get(partition_key(TOPIC, index))
    assert entry is not None
    return decode(entry, PartitionState)


async def test_each_start_has_an_epoch_of_its_own_that_only_grows(
    shared_store: UnreliableStore,
) -> None:
    first = await registered(shared_store)
    again = struct_replace(ABOUT, incarnation="2")

    second = await registered(shared_store, replace(STANDING, registration=again))

    assert second.epoch > first.epoch
    entry = await shared_store.get(broker_key(1))
    assert entry is not None
    assert entry.revision == second.epoch
    assert decode(entry, BrokerRegistration).endpoints["kafka"].port == 1


async def test_a_broker_lives_under_its_lease(shared_store: UnreliableStore) -> None:
    registration = await registered(shared_store)
    assert await shared_store.get(live_key(1)) is None

    await registration.appear()

    entry = await shared_store.get(live_key(1))
    assert entry is not None
    assert (decode(entry, Liveness).epoch, entry.lease) == (registration.epoch, registration.lease)
    await shared_store.commit(compares_for(1, registration.epoch), [Put("x", b"")])
    with pytest.raises(StoreConflict):
        await shared_store.commit(compares_for(1, registration.epoch - 1), [Put("x", b"")])


async def test_another_data_directory_cannot_take_a_brokers_place(
    shared_store: UnreliableStore,
) -> None:
    await registered(shared_store)
    stranger = struct_replace(ABOUT, uuid="u2")

    with pytest.raises(BrokerIdTaken, match="another data directory"):
        await registered(shared_store, replace(STANDING, registration=stranger))


async def test_a_broker_that_comes_back_leads_nothing_and_is_in_sync_nowhere(
    shared_store: UnreliableStore,
) -> None:
    """KIP-903: what it says of itself begins anew with its epoch."""
    await shared_store.store.commit([], [Put(live_key(2), encode(Liveness(epoch=1)))])
    led = PartitionState(replicas=(1, 2, 3), leader=1, leader_epoch=4, isr=(1, 2, 3))
    lonely = PartitionState(replicas=(1, 3), leader=1, leader_epoch=4, isr=(1,))
    other = PartitionState(replicas=(2, 3), leader=2, isr=(2, 3))
    for index, state in enumerate((led, lonely, other)):
        await put(shared_store, index, state)

    await registered(shared_store)

    after = await get(shared_store, 0)
    assert (after.leader, after.isr) == (2, (2, 3))
    assert after.leader_epoch > 4
    after = await get(shared_store, 1)
    assert (after.leader, after.isr, after.elr) == (NO_LEADER, (), (1,))
    assert await get(shared_store, 2) == other


@pytest.mark.parametrize("fault", ["lost", "unanswered"])
async def test_an_epoch_is_known_even_if_the_answer_was_lost(
    shared_store: UnreliableStore, fault: str
) -> None:
    await registered(shared_store)
    image = await Image.load(shared_store)
    again = struct_replace(ABOUT, incarnation="2")
    registration = Registration(
        image, replace(STANDING, registration=again), SystemClock(), durable
    )
    shared_store.commit_faults = [fault]

    await registration.register()

    entry = await shared_store.get(broker_key(1))
    assert entry is not None
    assert entry.revision == registration.epoch


@pytest.mark.parametrize(
    ("boot", "is_clean", "eligible"),
    [("monday", False, (1,)), ("tuesday", True, (1,)), ("tuesday", False, ())],
)
async def test_only_a_machine_that_went_down_by_itself_has_lost_records(
    shared_store: UnreliableStore, boot: str, is_clean: bool, eligible: tuple[int, ...]
) -> None:
    first = await registered(shared_store, rules=carefree)
    await first.appear()
    if is_clean:
        await first.leave()
        await first.end()
    await put(shared_store, 0, PartitionState(replicas=(1, 2), leader=1, isr=(1,)))
    again = struct_replace(ABOUT, boot=boot, incarnation="2")

    await registered(shared_store, replace(STANDING, registration=again), carefree)

    assert (await get(shared_store, 0)).elr == eligible


async def test_a_start_that_ends_half_way_stays_unclean(shared_store: UnreliableStore) -> None:
    """Found by tests/sim/controllers: the second start must know what the first has not done."""
    first = await registered(shared_store, rules=carefree)
    await first.appear()
    await put(shared_store, 0, PartitionState(replicas=(1, 2), leader=1, isr=(1,)))
    standing = replace(STANDING, registration=struct_replace(ABOUT, boot="tuesday"))
    half = Put(broker_key(1), encode(standing.registration))
    await shared_store.store.commit([], [half, Delete(live_key(1))])

    again = struct_replace(standing.registration, incarnation="3")
    await registered(shared_store, replace(STANDING, registration=again), carefree)

    assert (await get(shared_store, 0)).elr == ()


async def test_a_broker_that_leaves_hands_over_what_it_led(shared_store: UnreliableStore) -> None:
    """C13: clients need not wait for a lease to end."""
    registration = await registered(shared_store)
    await registration.appear()
    await shared_store.store.commit([], [Put(live_key(2), encode(Liveness(epoch=1)))])
    await put(shared_store, 0, PartitionState(replicas=(1, 2), leader=1, isr=(1, 2)))
    await registration._image.refresh()

    await registration.leave()

    after = await get(shared_store, 0)
    assert (after.leader, after.isr) == (2, (2,))
    assert await shared_store.get(live_key(1)) is None


async def test_handing_over_goes_on_where_somebody_else_was_quicker(
    shared_store: UnreliableStore,
) -> None:
    registration = await registered(shared_store)
    await registration.appear()
    await put(shared_store, 0, PartitionState(replicas=(1, 2), leader=1, isr=(1, 2)))
    await registration._image.refresh()
    await put(shared_store, 0, PartitionState(replicas=(1, 2), leader=1, isr=(1,)))

    await registration.leave()

    assert (await get(shared_store, 0)).leader == NO_LEADER


async def test_many_partitions_are_handed_over_in_several_commits(
    shared_store: UnreliableStore,
) -> None:
    shared_store.operations_max = 10
    registration = await registered(shared_store)
    for index in range(25):
        await put(shared_store, index, PartitionState(replicas=(1,), leader=1, isr=(1,)))
    await registration._image.refresh()
    before = shared_store.commits

    await registration.leave()

    assert shared_store.commits - before == 1 + 3
    assert all([(await get(shared_store, index)).leader == NO_LEADER for index in range(25)])


async def test_a_broker_relies_on_its_lease_no_longer_than_it_lasts(
    shared_store: UnreliableStore,
) -> None:
    """A leader that cannot renew stops before another can be elected."""
    clock = ManualClock()
    told: list[float] = []
    registration = Registration(await Image.load(shared_store), STANDING, clock, durable)
    registration.on_renewed.append(told.append)
    assert registration.until_s == -math.inf
    await registration.register()
    await registration.appear()
    assert registration.until_s == pytest.approx(54)
    clock.advance(20_000)

    await registration._renew()
    assert registration.until_s == pytest.approx(74)
    shared_store.is_away = True
    with pytest.raises(StoreUnavailable):
        await registration._renew()

    assert told == [pytest.approx(54), pytest.approx(74)]


async def test_a_lost_lease_is_told_and_begun_anew_in_the_same_epoch(
    shared_store: UnreliableStore,
) -> None:
    registration = await registered(shared_store)
    await registration.appear()
    epoch, lease = registration.epoch, registration.lease
    told: list[float] = []
    registration.on_renewed.append(told.append)
    await shared_store.revoke(lease)

    await registration._renew()

    assert told[0] == -math.inf
    assert told[1] > 0
    assert (registration.epoch, registration.lease != lease) == (epoch, True)
    assert await shared_store.get(live_key(1)) is not None


async def test_a_broker_whose_number_was_taken_does_not_come_back(
    shared_store: UnreliableStore,
) -> None:
    registration = await registered(shared_store)
    await registration.appear()
    await registered(shared_store, replace(STANDING, registration=struct_replace(ABOUT, boot="x")))
    await shared_store.revoke(registration.lease)

    with pytest.raises(BrokerIdTaken, match="elsewhere"):
        await registration._renew()


async def test_a_lease_is_kept_while_the_broker_runs(shared_store: UnreliableStore) -> None:
    registration = await registered(shared_store, replace(STANDING, lease_s=3))
    await registration.appear()
    before = await shared_store.get(live_key(1))
    renewed = asyncio.Semaphore(0)
    registration.on_renewed.append(lambda _: renewed.release())
    keeping = asyncio.ensure_future(registration.run())
    async with asyncio.timeout(60):
        for _ in range(4):  # which takes longer than the lease
            await renewed.acquire()
    assert await shared_store.get(live_key(1)) == before
    keeping.cancel()
    await asyncio.wait([keeping])


async def test_a_broker_whose_disk_is_suspect_has_lost_records_whatever_else_is_so(
    shared_store: UnreliableStore,
) -> None:
    first = await registered(shared_store, rules=carefree)
    await first.end()
    await put(shared_store, 0, PartitionState(replicas=(1, 2), leader=1, isr=(1,)))
    registration = Registration(await Image.load(shared_store), STANDING, SystemClock(), carefree)

    await registration.register(is_suspect=True)

    assert (await get(shared_store, 0)).elr == ()
