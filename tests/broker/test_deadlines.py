"""Deadlines that move often and pass seldom."""

import hypothesis.strategies as st
from hypothesis import given

from chordmq.broker.deadlines import Deadlines


def test_a_deadline_passes_once() -> None:
    deadlines = Deadlines()
    deadlines.set("a", 10)
    assert deadlines.next_ms() == 10
    assert deadlines.due(9) == []
    assert deadlines.due(10) == ["a"]
    assert deadlines.due(99) == []
    assert deadlines.next_ms() is None


def test_a_deadline_moved_away_a_thousand_times_has_one_heap_entry() -> None:
    deadlines = Deadlines()
    for at_ms in range(1_000):
        deadlines.set("a", 10 + at_ms)
    assert len(deadlines._heap) == 1
    assert deadlines.due(1_008) == []
    assert deadlines.due(1_009) == ["a"]


def test_a_deadline_moved_nearer_passes_at_the_nearer_time() -> None:
    deadlines = Deadlines()
    deadlines.set("a", 100)
    deadlines.set("a", 5)
    assert deadlines.due(5) == ["a"]
    assert deadlines.due(100) == []


def test_a_discarded_deadline_never_passes_and_may_be_set_again() -> None:
    deadlines = Deadlines()
    deadlines.set("a", 5)
    deadlines.discard("a")
    assert "a" not in deadlines
    deadlines.set("a", 7)
    assert deadlines.due(6) == []
    assert deadlines.due(7) == ["a"]


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.one_of(st.none(), st.integers(0, 50))), max_size=60
    )
)
def test_it_agrees_with_a_plain_dictionary(steps: list[tuple[str, int | None]]) -> None:
    deadlines, model, now_ms = Deadlines(), dict[str, int](), 0
    for name, distance in steps:
        if distance is None:
            deadlines.discard(name)
            model.pop(name, None)
        else:
            deadlines.set(name, now_ms + distance)
            model[name] = now_ms + distance
        next_ms = deadlines.next_ms()
        assert not model or (next_ms is not None and next_ms <= min(model.values()))
        now_ms += 7
        expected = {key for key, at_ms in model.items() if at_ms <= now_ms}
        assert set(deadlines.due(now_ms)) == expected
        for key in expected:
            del model[key]
