"""When queries see a new data set: all partitions at once, and never a mixture."""

from hypothesis import given
from hypothesis import strategies as st

from chordmq.consumer_app.refresh import Refresh


def refresh(partitions: int = 2) -> Refresh:
    made = Refresh({})
    made.know(list(range(partitions)))
    return made


def currents(state: Refresh) -> list[int]:
    return [stage.current for stage in state.stages.values()]


def test_a_data_set_counts_when_all_partitions_have_it() -> None:
    """D13: atomic swap."""
    state = refresh()
    assert state.reset(0) == 1
    assert not state.ready(0, "monday")
    assert state.reset(1) == 1
    assert currents(state) == [0, 0]
    assert state.ready(1, "monday")
    assert currents(state) == [1, 1]


def test_a_second_reset_replaces_the_first() -> None:
    """D13: what was not complete is given up."""
    state = refresh()
    state.reset(0)
    state.reset(1)
    state.ready(0, "")
    state.reset(0)
    assert not state.ready(1, "")
    state.ready(0, "")
    state.reset(1)
    assert state.ready(1, "")
    assert currents(state) == [2, 2]


@given(st.lists(st.booleans(), max_size=40), st.integers(1, 5))
def test_queries_never_see_different_editions(turns: list[bool], editions: int) -> None:
    """D13: whichever partition is ahead, and by how much."""
    state = refresh()
    script = [step for n in range(editions) for step in (("reset", n), ("ready", n))]
    at = [0, 0]
    for turn in [*turns, *([False, True] * len(script))]:
        partition = int(turn)
        if at[partition] == len(script):
            continue
        step, edition = script[at[partition]]
        at[partition] += 1
        if step == "reset":
            state.reset(partition)
        else:
            state.ready(partition, f"edition {edition}")
        assert len(set(currents(state))) == 1
    assert currents(state) == [editions, editions]
