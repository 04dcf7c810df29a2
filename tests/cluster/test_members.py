"""Who is in the cluster, as the store's image shows it."""

from chordmq.clock import SystemClock
from chordmq.cluster.elections import Rules, elected
from chordmq.cluster.image import Image
from chordmq.cluster.members import NO_BROKER, Members
from chordmq.cluster.metastore.store import Delete, Put
from chordmq.cluster.state import (
    CONTROLLER,
    BrokerRegistration,
    ControllerLease,
    Endpoint,
    Liveness,
    PartitionState,
    broker_key,
    encode,
    live_key,
)
from chordmq.storage.metadata.database import Database
from tests.cluster.unreliable_store import UnreliableStore


async def test_registered_and_living_brokers_are_told_apart(shared_store: UnreliableStore) -> None:
    image = await Image.load(shared_store)
    members = Members(image, 1, is_alone=False)
    assert (members.all(), members.live(), members.controller()) == ([], [], NO_BROKER)
    kafka = Endpoint(host="h", port=9092)
    revision = await image.commit(
        [],
        [
            Put(broker_key(10), encode(BrokerRegistration(uuid="a", endpoints={"kafka": kafka}))),
            Put(broker_key(2), encode(BrokerRegistration(uuid="b", rack="r"))),
            Put(live_key(2), encode(Liveness(epoch=1))),
            Put(CONTROLLER, encode(ControllerLease(broker=2))),
        ],
    )

    assert [(one.id, one.epoch, one.is_live) for one in members.all()] == [
        (2, revision, True),
        (10, revision, False),
    ]
    assert (members.live(), members.controller()) == ([2], 2)
    away, here = members.get(10), members.get(2)
    assert away is not None
    assert here is not None
    assert away.endpoint("kafka") == kafka
    assert here.endpoint("kafka") is None
    assert members.get(3) is None


async def test_new_partitions_go_to_brokers_that_live(shared_store: UnreliableStore) -> None:
    image = await Image.load(shared_store)
    members = Members(image, 1, is_alone=False)
    for number in (1, 2, 3, 4):
        await image.commit(
            [],
            [
                Put(broker_key(number), encode(BrokerRegistration(uuid=f"u{number}"))),
                Put(live_key(number), encode(Liveness(epoch=1))),
            ],
        )
    everywhere = members.place(bytes(16), range(40), 2)
    assert {one for state in everywhere for one in state.replicas} == {1, 2, 3, 4}
    await image.commit([], [Delete(live_key(3))])

    states = members.place(bytes(16), range(30, 40), 2)

    assert len(states) == 10
    assert {one for state in states for one in state.replicas} == {1, 2, 4}
    assert all(state.leader == state.replicas[0] for state in states)
    assert members.begin((3, 1)) == PartitionState(replicas=(3, 1), leader=1, isr=(1,))
    begun = members.begin((3,))
    assert begun == PartitionState(replicas=(3,), leader=NO_BROKER, isr=(3,))
    assert elected(begun, [3], Rules()).leader == 3, "it is led as soon as somebody can"


def test_a_node_alone_is_everybody(database: Database) -> None:
    members = Members(Image.local(database, SystemClock()), 7)

    assert (members.live(), members.controller(), members.all()) == ([7], 7, [])
    assert (
        members.place(bytes(16), range(2), 1)
        == [PartitionState(replicas=(7,), leader=7, isr=(7,))] * 2
    )
