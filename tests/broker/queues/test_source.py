"""A queue's cursor in a partition: what is done, what is stored, and what a restart makes of it."""

import itertools
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from chordmq.broker.cursors.shared_cursor import Change, State
from chordmq.broker.queues.source import Source

NOWHERE = cast(Any, None)


def loaded(*offsets: int) -> Source:
    """Return a source that has looked at these offsets."""
    source = Source(NOWHERE, offsets[0])
    for offset in offsets:
        assert source.take(offset) == 0
    return source


def test_the_start_moves_over_what_is_done_in_any_order() -> None:
    source = loaded(3, 5, 9)
    source.finish(5)
    assert source.start == 3
    source.finish(3)
    assert source.start == 9
    source.finish(9)
    assert source.start == 10
    assert source.is_idle


def test_deliveries_are_stored_and_come_back() -> None:
    source = loaded(0, 1, 2, 3)
    source.tried(0, 1)
    source.tried(1, 1)
    source.finish(2)
    start, changes = source.stored()
    again = Source(NOWHERE, start, changes)
    assert [again.take(offset) for offset in range(4)] == [1, 1, None, 0]


def test_other_queues_offsets_between_do_not_matter() -> None:
    source = loaded(0, 10, 20, 30)
    source.finish(10)
    source.finish(20)
    _, changes = source.stored()
    assert [change[:2] for change in changes] == [(10, 20)]


def test_what_was_not_looked_at_again_stays_stored() -> None:
    source = loaded(0, 1, 2, 3)
    source.finish(2)
    start, changes = source.stored()
    again = Source(NOWHERE, start, changes)
    assert again.stored() == (start, changes)
    assert again.is_done(2)
    again.take(0)
    assert again.stored() == (start, changes)


def test_skipping_leaves_what_is_held() -> None:
    source = loaded(0, 1)
    source.is_behind = True
    source.skip_to(50)
    assert (source.start, source.next, source.is_behind) == (0, 50, False)


def test_what_was_skipped_stays_done_while_something_before_it_is_held() -> None:
    """A5: a purge must not be undone by a restart."""
    source = loaded(0, 1, 2)
    source.finish(2)
    source.skip_to(50)
    source.take(60)
    source.tried(60, 1)
    again = Source(NOWHERE, *source.stored())
    assert [again.take(n) for n in (0, 1, 2, 49, 60)] == [0, 0, None, None, 1]
    for offset in (0, 1):
        source.finish(offset)
    assert source.stored() == (60, (Change(60, 60, State.AVAILABLE, 1),))


def test_many_are_looked_at_together_where_nothing_was_stored_of_them() -> None:
    source = Source(NOWHERE, 0, (Change(2, 3, State.DONE, 0), Change(9, 9, State.AVAILABLE, 1)))
    assert [source.knows(range(n, n + 2)) for n in (0, 1, 3, 4, 8, 10)] == [
        False, True, True, False, True, False,
    ]  # fmt: skip
    source.take_all(range(4, 9))
    assert (source.start, source.next, len(source.kept)) == (4, 9, 1)
    assert source.take(9) == 1


@given(st.data())
def test_a_restart_knows_exactly_what_is_left(data: st.DataObject) -> None:
    """A5: whatever is done or tried in whatever order, the stored form says the same."""
    offsets = sorted(data.draw(st.sets(st.integers(0, 60), min_size=1, max_size=25)))
    source = loaded(*offsets)
    done = data.draw(st.sets(st.sampled_from(offsets)))
    tried = data.draw(st.dictionaries(st.sampled_from(offsets), st.integers(1, 5)))
    for offset, deliveries in tried.items():
        source.tried(offset, deliveries)
    for offset in data.draw(st.permutations(sorted(done))):
        source.finish(offset)
    start, changes = source.stored()
    again = Source(NOWHERE, start, changes)
    left = {offset: again.take(offset) for offset in offsets if offset >= start}
    expected = {offset: tried.get(offset, 0) for offset in offsets if offset not in done}
    assert {offset: count for offset, count in left.items() if count is not None} == expected


@given(st.integers(1, 40), st.integers(1, 4), st.data())
def test_many_are_done_together_as_they_are_one_by_one(
    count: int, around: int, data: st.DataObject
) -> None:
    """Also every second, third or fourth of them, as consumers have them that take turns."""
    together, each = Source(NOWHERE, 5), Source(NOWHERE, 5)
    offsets = range(5, 5 + count)
    together.take_all(offsets)
    together.tried_all(offsets)
    for offset in offsets:
        each.take(offset)
        each.tried(offset, 1)
    cuts = sorted(data.draw(st.sets(st.integers(1, count))) | {0, count})
    stretches = [offsets[first:last] for first, last in itertools.pairwise(cuts)]
    dealt = [one[number::around] for one in stretches for number in range(around)]
    for part in data.draw(st.permutations([part for part in dealt if part])):
        together.finish_all(part)
        for offset in part:
            each.finish(offset)
        assert together.stored() == each.stored()
    assert together.is_idle
