"""Broadcasts along the fingers."""

from math import log2
from random import Random

import pytest

from chordmq.cluster.ring.broadcast import Seen, children
from tests.cluster.ring.whole_ring import exchange, whole_ring


@pytest.mark.parametrize("count", [1, 2, 3, 10, 100, 1_000])
def test_each_member_is_reached_once_with_one_message(count: int) -> None:
    """A7: a broadcast costs n-1 messages and reaches each node once, in log2 n steps."""
    members = whole_ring(count)
    origin = Random(5).choice(sorted(members))
    members[origin].broadcast(b"news")
    spreads, depth = exchange(members, origin)
    assert spreads == count - 1
    assert depth <= log2(count) + 1
    delivered = {me: len(member.take_delivered()) for me, member in members.items()}
    assert delivered == {me: int(me != origin) for me in members}


@pytest.mark.parametrize("count", [10, 30, 100, 300])
def test_the_arcs_of_the_dead_are_taken_over(count: int) -> None:
    members = whole_ring(count)
    chance = Random(count)
    places = sorted(members)
    for dead in chance.sample(places, count * 3 // 10):
        del members[dead]
    for member in members.values():
        # As after a few rounds: neighbours are mended first, fingers come later.
        near = member.neighbourhood
        near.know(members)
        near.begin(near._clockwise())
    origin = chance.choice(sorted(members))
    members[origin].broadcast(b"news")
    exchange(members, origin)
    missed = [me for me, m in members.items() if not m.take_delivered() and me != origin]
    assert missed == []


def test_children_share_the_arc() -> None:
    assert children(10, 10, [20, 40, 80]) == [(20, 40), (40, 80), (80, 10)]
    assert children(20, 40, [30, 40, 80]) == [(30, 40)]
    assert children(20, 40, [80, 20]) == []


def test_a_message_is_remembered_for_a_while() -> None:
    seen = Seen(limit=2)
    assert seen.is_new(1, 1)
    assert not seen.is_new(1, 1)
    assert seen.is_new(1, 2)
    assert seen.is_new(2, 1)
    assert seen.is_new(1, 1), "the oldest is forgotten"
