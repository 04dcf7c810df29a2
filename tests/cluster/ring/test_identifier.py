"""Places on the ring."""

from hypothesis import given
from hypothesis import strategies as st

from chordmq.cluster.ring.identifier import (
    SIZE,
    after,
    between,
    distance,
    owned,
    place_of_broker,
    place_of_partition,
)

places = st.integers(0, 30)


@given(places, places, places)
def test_a_place_is_in_exactly_one_of_two_arcs_or_at_their_ends(a: int, x: int, b: int) -> None:
    if a == b:
        assert between(a, x, b) == (x != a)
    else:
        assert between(a, x, b) + between(b, x, a) + (x in (a, b)) == 1


@given(places, places, places)
def test_an_arc_is_what_lies_nearer_than_its_end(a: int, x: int, b: int) -> None:
    if a != b:
        assert between(a, x, b) == (0 < distance(a, x) < distance(a, b))
        assert owned(a, x, b) == (0 < distance(a, x) <= distance(a, b))


def test_after_the_greatest_place_comes_zero() -> None:
    assert after(SIZE - 1) == 0


def test_places_do_not_change_between_versions() -> None:
    assert place_of_broker("cluster", "uuid", 3) == 8000400773920406376
    assert place_of_partition(bytes(16), 1) == 16861211397351628197
