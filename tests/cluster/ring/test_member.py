"""A member as a whole: who is asked what, and what the ring tells it."""

from chordmq.cluster.ring.member import Member
from chordmq.codecs.peer.ring import Ask, Route, Routed, Spread, Taken
from tests.cluster.ring.whole_ring import exchange, whole_ring


def test_who_is_no_member_refuses_everything() -> None:
    member = Member(10, 1)
    assert member.answer(Ask(1)) is None
    assert member.answer(Route(2, 5)) is None
    assert member.answer(Spread(3, 1, 1, 1, b"")) is None


def test_a_member_alone_owns_every_key() -> None:
    member = Member(10, 1)
    member.know([10])
    assert member.answer(Route(7, 99)) == Routed(7, 10)
    member.look_up(3)
    assert [found.owner for found in member.take_found()] == [10]


def test_a_broadcast_is_delivered_once_though_it_comes_twice() -> None:
    member = Member(10, 1)
    member.know([10])
    for number in (1, 2):
        assert member.answer(Spread(number, 5, 9, 10, b"news")) == Taken(number)
    assert [spread.payload for spread in member.take_delivered()] == [b"news"]


def test_fingers_are_found_by_look_ups() -> None:
    members = whole_ring(64)
    me = min(members)
    expected = dict(members[me].fingers.table)
    members[me].fingers.table = {}
    for _ in range(70):
        members[me].tick()
        exchange(members, me)
    assert members[me].fingers.table == expected


def test_who_did_not_answer_is_not_named_for_a_while() -> None:
    members = whole_ring(20)
    places = sorted(members)
    me, dead = members[places[0]], places[1]
    del members[dead]
    me.tick()
    exchange(members, me.me)
    answer = me.answer(Route(1, dead))
    assert isinstance(answer, Routed)
    assert answer.owner == places[2]
