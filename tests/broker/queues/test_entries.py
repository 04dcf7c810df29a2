"""Messages that were published alike, as one and one by one."""

from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from chordmq.broker.queues.entries import Entry, Stretch

NOWHERE = cast(Any, None)
Known = list[tuple[int, int, bytes | None, int, int]]


def made(count: int) -> Stretch:
    """Return messages of different sizes from offset 100 on, whose positions are from 7 on."""
    stretch = Stretch(NOWHERE, 100, NOWHERE, [b"x" * number for number in range(count)])
    stretch.position, stretch.deliveries = 7, 1
    return stretch


def known(entries: list[Entry]) -> Known:
    return [(one.offset, one.position, one.body, one.size, one.deliveries) for one in entries]


def test_a_stretch_knows_each_of_its_messages() -> None:
    stretch = made(3)
    assert list(stretch.offsets) == [100, 101, 102]
    assert known(stretch.entries()) == [
        (100, 7, b"", 0, 1),
        (101, 8, b"x", 1, 1),
        (102, 9, b"xx", 2, 1),
    ]


def test_every_third_message_of_a_stretch_is_one_as_well() -> None:
    part = made(8).part(1, 8, 3)
    assert (list(part.offsets), part.sizes) == ([101, 104, 107], [1, 4, 7])
    assert known([part.take_first()]) == [(101, 8, b"x", 1, 1)]
    assert (list(part.offsets), part.position) == ([104, 107], 11)
    part.bodies = []
    assert known(part.part(1, 2).entries()) == [(107, 14, None, 7, 1)]


def test_stretches_that_follow_each_other_are_joined_if_they_are_alike() -> None:
    for start, change in ((3, ""), (4, ""), (3, "envelope"), (3, "source"), (3, "position")):
        stretch, rest = made(8).part(0, 3), made(8).part(start, 8)
        if change:
            setattr(rest, change, object() if change != "position" else 99)
        is_joined = start == 3 and not change
        assert stretch.join(rest) is is_joined
        expected = made(8) if is_joined else made(8).part(0, 3)
        assert known(stretch.entries()) == known(expected.entries())


@given(st.integers(1, 30), st.booleans(), st.data())
def test_parts_of_parts_hold_the_messages_that_were_asked_for(
    count: int, is_read_again: bool, data: st.DataObject
) -> None:
    stretch, expected = made(count), known(made(count).entries())
    if is_read_again:
        stretch.bodies = []
        expected = [(offset, place, None, size, 1) for offset, place, _, size, _ in expected]
    for _ in range(data.draw(st.integers(0, 6))):
        if not expected:
            break
        start = data.draw(st.integers(0, len(expected) - 1))
        stop = data.draw(st.integers(start + 1, len(expected)))
        step = data.draw(st.integers(1, 4))
        kind = data.draw(st.sampled_from(("part", "take", "take_first")))
        if kind == "part":
            stretch, expected = stretch.part(start, stop, step), expected[start:stop:step]
        elif kind == "take":
            assert known(stretch.take(stop).entries()) == expected[:stop]
            expected = expected[stop:]
        else:
            assert known([stretch.take_first()]) == expected[:1]
            expected = expected[1:]
        assert known(stretch.entries()) == expected
        assert [offset for offset, *_ in expected] == list(stretch.offsets)
        assert len(stretch) == len(expected)
