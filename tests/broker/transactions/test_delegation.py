"""Proves over real links that transactions reach whoever looks after them."""

from collections.abc import Collection

import pytest

from chordmq.broker.groups.offsets import Place
from chordmq.broker.producers import Incarnation
from chordmq.broker.transactions.coordinator import Delegate
from chordmq.broker.transactions.delegation import Delegation
from chordmq.errors import CoordinatorNotAvailable, InvalidTransactionState
from chordmq.records.marker import Marker
from tests.cluster.linked import Linked, linked, until_connected

PRODUCER = Incarnation(7, 1)
HERE, THERE, NOWHERE = 0, 1, 2


class Hint:
    """What a partition of another node knows of its leader."""

    def __init__(self, leader: int) -> None:
        self.leader_hint = (leader, 0)


class Led:
    """A partition that a node leads, or nobody."""

    topic = "t"

    def __init__(self, node: int, leader: int, index: int = 0) -> None:
        self.index = index
        self.is_leader = node == leader
        self.replica = Hint(leader)


class Places:
    """A topic whose partition 0 node 1 leads, 1 node 2, and 2 nobody."""

    def __init__(self, node: int) -> None:
        self.partitions = [Led(node, leader, i) for i, leader in enumerate((1, 2, -1))]

    def get(self, name: str) -> "Places":
        return self


class Told:
    """A coordinator that remembers what it was asked."""

    def __init__(self, kept_in: int) -> None:
        self.delegate: Delegate | None = None
        self.done: list[object] = []
        self._kept_in = kept_in

    async def add(
        self, transactional_id: str, producer: Incarnation, places: Collection[Place]
    ) -> None:
        self.done.append((transactional_id, producer, list(places)))

    def check_member(self, transactional_id: str, producer: Incarnation, place: Place) -> None:
        raise InvalidTransactionState("not a member")

    def place_of(self, transactional_id: str) -> Place:
        return "__transaction_state", self._kept_in

    async def write_marker(self, place: Place, marker: Marker) -> None:
        self.done.append((place, marker))


def delegating(node: Linked, kept_in: int) -> tuple[Delegation, Told]:
    coordinator = Told(kept_in)
    places = Places(node.links.broker)
    return Delegation(node.links, places, coordinator), coordinator  # type: ignore[arg-type]


async def test_partitions_join_and_end_a_transaction_where_it_is_looked_after() -> None:
    async with linked(2) as (one, two):
        await until_connected(one, two)
        delegation, here = delegating(one, THERE)
        _, there = delegating(two, THERE)
        await delegation.add("tx", PRODUCER, [("orders", 3)])
        await delegation.mark(("orders", THERE), Marker(7, 1, True))
        await delegation.mark(("orders", HERE), Marker(7, 1, False))
        assert there.done == [
            ("tx", PRODUCER, [("orders", 3)]),
            (("orders", THERE), Marker(7, 1, True)),
        ]
        assert here.done == [(("orders", HERE), Marker(7, 1, False))]


async def test_what_the_other_node_refuses_is_refused_here_by_the_same_name() -> None:
    async with linked(2) as (one, two):
        await until_connected(one, two)
        delegation, _ = delegating(one, THERE)
        delegating(two, THERE)
        with pytest.raises(InvalidTransactionState):
            await delegation.check("tx", PRODUCER, [("orders", 3)])


async def test_who_cannot_be_asked_is_asked_again_later() -> None:
    async with linked(2) as (one, two):
        await until_connected(one, two)
        delegation, _ = delegating(one, NOWHERE)
        with pytest.raises(CoordinatorNotAvailable, match="nobody leads"):
            await delegation.add("tx", PRODUCER, [])
        await two.close()
        with pytest.raises(CoordinatorNotAvailable):
            await delegation.mark(("orders", THERE), Marker(7, 1, True))
