"""How far a group's place may move while messages are done in any order."""

from hypothesis import given
from hypothesis import strategies as st

from chordmq.client.progress import Progress

PLACE = ("t", 0)


@given(st.permutations(list(range(10, 20))))
def test_the_place_is_before_the_first_message_that_is_not_done(order: list[int]) -> None:
    """D10: at least once: whatever the order, nothing that is not done is passed over."""
    progress = Progress()
    for offset in range(10, 20):
        progress.begin(PLACE, offset)
    left = set(range(10, 20))
    for offset in order:
        assert progress.committable() == {PLACE: min(left)}
        progress.finish(PLACE, offset)
        left.remove(offset)
        assert len(progress) == len(left)
    assert progress.committable() == {PLACE: 20}


def test_what_readers_are_not_shown_is_passed_over_as_well() -> None:
    progress = Progress()
    progress.begin(PLACE, 3)
    progress.reach(PLACE, 9)
    assert progress.committable() == {PLACE: 3}
    progress.finish(PLACE, 3)
    assert progress.committable() == {PLACE: 9}


def test_nothing_is_committed_of_partitions_that_were_given_back() -> None:
    progress = Progress()
    progress.begin(PLACE, 3)
    progress.forget()
    progress.finish(PLACE, 3)
    assert progress.committable() == {}
    assert len(progress) == 0
