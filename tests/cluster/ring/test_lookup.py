"""How many members a look-up asks."""

from math import log2
from random import Random

import pytest

from chordmq.cluster.ring.lookup import Lookup
from chordmq.codecs.peer.ring import Routed
from tests.cluster.ring.whole_ring import exchange, owner, whole_ring


@pytest.mark.parametrize("count", [1, 2, 5, 10, 100, 1_000, 10_000])
def test_look_ups_ask_half_as_many_as_log2_of_all(count: int) -> None:
    """A8: any node finds the owner of a key in ½·log2 n + 1 hops on average, up to 10,000 nodes."""
    members = whole_ring(count)
    places = sorted(members)
    chance = Random(7)
    hops = []
    for _ in range(500):
        me, key = chance.choice(places), chance.randrange(2**64)
        members[me].look_up(key)
        exchange(members, me)
        (found,) = members[me].take_found()
        assert found.owner == owner(places, key)
        hops.append(found.hops)
    assert sum(hops) / len(hops) <= log2(count) / 2 + 1
    assert max(hops) <= 2 * log2(count) + 1


def test_look_ups_go_round_the_dead() -> None:
    members = whole_ring(200)
    chance = Random(3)
    for dead in chance.sample(sorted(members), 40):
        del members[dead]
    places = sorted(members)
    for me in chance.sample(places, 50):
        key = chance.choice(places)  # its owner is alive; the way there need not be
        members[me].look_up(key)
        exchange(members, me)
        (found,) = members[me].take_found()
        assert found.owner == key


def test_the_nearest_are_asked_first_and_nobody_twice() -> None:
    lookup = Lookup(100, Routed(0, None, (10, 50)))
    assert lookup.next() == 50
    lookup.receive(Routed(1, None, (50, 70, 60)))
    assert [lookup.next(), lookup.next(), lookup.next(), lookup.next()] == [70, 60, 10, None]
    assert lookup.owner is None
    assert lookup.hops == 4


def test_an_owner_ends_the_search() -> None:
    lookup = Lookup(100, Routed(0, None, (10,)))
    lookup.next()
    lookup.receive(Routed(1, 120))
    assert lookup.owner == 120
    assert lookup.next() is None
