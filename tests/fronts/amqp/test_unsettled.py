"""What a client has got, in the order of its tags."""

from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from chordmq.broker.queues.entries import Entry, Stretch
from chordmq.fronts.amqp.unsettled import Span, Unsettled

NOWHERE = cast(Any, None)


def delivered(*counts: int) -> Unsettled:
    """Return messages that were delivered so many at a time; each has its tag as its offset."""
    unsettled, tag = Unsettled(), 1
    for count in counts:
        held: Any = Stretch(NOWHERE, tag, NOWHERE, [b"x"] * count)
        if count == 1:
            (held,) = held.entries()
        unsettled.add(Span(tag, held, NOWHERE, None))
        tag += count
    return unsettled


def offsets(spans: list[Span]) -> list[int]:
    found: list[Entry] = [entry for span in spans for entry in span.messages()]
    return [entry.offset for entry in found]


@given(st.lists(st.integers(1, 5), max_size=6), st.data())
def test_what_is_settled_goes_in_any_order(counts: list[int], data: st.DataObject) -> None:
    """A3: each message is settled once, whichever were delivered with it."""
    unsettled = delivered(*counts)
    left = list(range(1, sum(counts) + 1))
    for _ in range(data.draw(st.integers(0, 10))):
        tag = data.draw(st.integers(1, sum(counts) + 1))
        assert unsettled.first == (left[0] if left else float("inf"))
        assert (tag in unsettled) == (tag in left)
        if data.draw(st.booleans()):
            span = unsettled.take(tag)
            assert offsets([] if span is None else [span]) == [one for one in left if one == tag]
            left = [one for one in left if one != tag]
        else:
            assert offsets(unsettled.take_until(tag)) == [one for one in left if one <= tag]
            left = [one for one in left if one > tag]
        assert len(unsettled) == len(left)
    assert offsets(unsettled.take_all()) == left
    assert len(unsettled) == 0
