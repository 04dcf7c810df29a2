"""What administrators ask of a cluster, and what they are refused."""

import pytest

from chordmq.clock import SystemClock
from chordmq.cluster.administration import Administration
from chordmq.cluster.elections import Rules
from chordmq.cluster.image import Image
from chordmq.cluster.members import Members
from chordmq.cluster.metastore.store import Delete, Put
from chordmq.cluster.state import (
    NO_LEADER,
    BrokerRegistration,
    Liveness,
    PartitionState,
    broker_key,
    decode,
    encode,
    live_key,
    partition_key,
)
from chordmq.errors import (
    BrokerIsLive,
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    InvalidReplicaAssignment,
    NoReassignment,
    PreferredLeaderNotAvailable,
    UnknownBroker,
    UnknownTopic,
)
from chordmq.storage.metadata.database import Database
from tests.cluster.unreliable_store import UnreliableStore

TOPIC = bytes(16)


def rules(_topic: bytes) -> Rules:
    return Rules(min_in_sync=2)


async def administration(store: UnreliableStore, state: PartitionState) -> Administration:
    """Return the administration of brokers 1 to 3, with one partition."""
    puts = [Put(partition_key(TOPIC, 0), encode(state))]
    for number in (1, 2, 3):
        puts.append(Put(broker_key(number), encode(BrokerRegistration(uuid=f"u{number}"))))
        puts.append(Put(live_key(number), encode(Liveness(epoch=1))))
    await store.store.commit([], puts)
    image = await Image.load(store)
    return Administration(image, Members(image, 1, is_alone=False), rules)


async def now(store: UnreliableStore) -> PartitionState:
    entry = await store.get(partition_key(TOPIC, 0))
    assert entry is not None
    return decode(entry, PartitionState)


async def test_the_preferred_replica_leads_on_request(shared_store: UnreliableStore) -> None:
    """C2: ElectLeaders."""
    led = PartitionState(replicas=(1, 2, 3), leader=2, leader_epoch=3, isr=(1, 2))
    admin = await administration(shared_store, led)

    await admin.elect_preferred(TOPIC, 0)

    assert ((await now(shared_store)).leader, (await now(shared_store)).leader_epoch) == (1, 4)
    with pytest.raises(ElectionNotNeeded):
        await admin.elect_preferred(TOPIC, 0)
    with pytest.raises(UnknownTopic):
        await admin.elect_preferred(TOPIC, 1)


async def test_a_preferred_replica_that_lacks_something_does_not_lead(
    shared_store: UnreliableStore,
) -> None:
    led = PartitionState(replicas=(1, 2, 3), leader=2, isr=(2, 3))
    admin = await administration(shared_store, led)

    with pytest.raises(PreferredLeaderNotAvailable):
        await admin.elect_preferred(TOPIC, 0)


async def test_only_a_person_lets_a_replica_lead_that_may_lack_something(
    shared_store: UnreliableStore,
) -> None:
    dead = PartitionState(replicas=(9, 3), leader=NO_LEADER, leader_epoch=5, elr=(9,))
    admin = await administration(shared_store, dead)

    await admin.elect_any(TOPIC, 0)

    state = await now(shared_store)
    assert (state.leader, state.leader_epoch, state.isr, state.elr) == (3, 6, (3,), ())
    with pytest.raises(ElectionNotNeeded):
        await admin.elect_any(TOPIC, 0)


async def test_where_nobody_lives_nobody_can_be_elected(shared_store: UnreliableStore) -> None:
    dead = PartitionState(replicas=(8, 9), leader=NO_LEADER, elr=(9,))
    admin = await administration(shared_store, dead)

    with pytest.raises(EligibleLeadersNotAvailable):
        await admin.elect_any(TOPIC, 0)


async def test_a_partition_is_sent_on_its_way_and_called_back(
    shared_store: UnreliableStore,
) -> None:
    """C2: AlterPartitionReassignments."""
    held = PartitionState(replicas=(1, 2), leader=1, isr=(1, 2))
    admin = await administration(shared_store, held)
    with pytest.raises(NoReassignment):
        await admin.cancel(TOPIC, 0)

    await admin.reassign(TOPIC, 0, [3, 1])
    state = await now(shared_store)
    assert (state.replicas, state.adding, state.removing) == ((3, 1, 2), (3,), (2,))
    await admin.cancel(TOPIC, 0)

    assert await now(shared_store) == held


@pytest.mark.parametrize("replicas", [[], [1, 1], [1, 7]])
async def test_replicas_must_be_nodes_each_once(
    shared_store: UnreliableStore, replicas: list[int]
) -> None:
    admin = await administration(shared_store, PartitionState(replicas=(1,), leader=1, isr=(1,)))

    with pytest.raises(InvalidReplicaAssignment):
        await admin.reassign(TOPIC, 0, replicas)


async def test_a_node_that_is_gone_for_good_counts_for_nothing_any_more(
    shared_store: UnreliableStore,
) -> None:
    """C2: UnregisterBroker."""
    held = PartitionState(replicas=(3, 2), leader=NO_LEADER, elr=(2, 3))
    admin = await administration(shared_store, held)
    with pytest.raises(BrokerIsLive):
        await admin.unregister(3)
    await shared_store.store.commit([], [Delete(live_key(3))])
    await admin._image.refresh()

    await admin.unregister(3)

    state = await now(shared_store)
    assert (state.leader, state.elr) == (2, ())
    assert 3 not in state.isr
    with pytest.raises(UnknownBroker):
        await admin.unregister(3)


async def test_a_node_alone_has_nothing_to_elect_or_move(database: Database) -> None:
    image = Image.local(database, SystemClock())
    admin = Administration(image, Members(image, 4), rules)

    await admin.reassign(TOPIC, 0, [4])
    with pytest.raises(ElectionNotNeeded):
        await admin.elect_preferred(TOPIC, 0)
    with pytest.raises(NoReassignment):
        await admin.cancel(TOPIC, 0)
    with pytest.raises(InvalidReplicaAssignment):
        await admin.reassign(TOPIC, 0, [5])
    with pytest.raises(UnknownBroker):
        await admin.unregister(4)
