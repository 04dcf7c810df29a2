"""What a client has got, in the order of its tags."""

from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from chordmq.broker.queues.entries import Entry, Stretch
from chordmq.fronts.amqp.unsettled import Span, Unsettled

NOWHERE = cast(Any, None)


def delivered(around: int, *counts: int) -> Unsettled:
    """Return messages that were delivered so many at a time, others to other consumers between.

    The offset of each is its tag times the number of consumers.
    """
    unsettled, tag = Unsettled(), 1
    for count in counts:
        whole = Stretch(NOWHERE, tag * around, NOWHERE, [b"x"] * (count * around))
        held: Any = whole.part(0, count * around, around)
        if count == 1:
            (held,) = held.entries()
        unsettled.add(Span(tag, held, NOWHERE, None))
        tag += count
    return unsettled


def offsets(spans: list[Span], around: int) -> list[float]:
    found: list[Entry] = [entry for span in spans for entry in span.messages()]
    return [entry.offset / around for entry in found]


@given(st.lists(st.integers(1, 5), max_size=6), st.integers(1, 3), st.data())
def test_what_is_settled_goes_in_any_order(
    counts: list[int], around: int, data: st.DataObject
) -> None:
    """A3: each message is settled once, whichever were delivered with it."""
    unsettled = delivered(around, *counts)
    left = list(range(1, sum(counts) + 1))
    for _ in range(data.draw(st.integers(0, 10))):
        tag = data.draw(st.integers(1, sum(counts) + 1))
        assert unsettled.first == (left[0] if left else float("inf"))
        assert (tag in unsettled) == (tag in left)
        if data.draw(st.booleans()):
            span = unsettled.take(tag)
            found = offsets([] if span is None else [span], around)
            assert found == [one for one in left if one == tag]
            left = [one for one in left if one != tag]
        else:
            found = offsets(unsettled.take_until(tag), around)
            assert found == [one for one in left if one <= tag]
            left = [one for one in left if one > tag]
        assert len(unsettled) == len(left)
    assert offsets(unsettled.take_all(), around) == left
    assert len(unsettled) == 0
