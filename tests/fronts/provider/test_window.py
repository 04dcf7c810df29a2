"""What a consumer has and has not acknowledged."""

from hypothesis import given
from hypothesis import strategies as st

from chordmq.fronts.provider.window import Window


def test_credit_is_spent_by_sending_and_regained_by_acknowledging() -> None:
    """D8: credit."""
    window = Window(3, 10.0)
    window.sent([(0, 1), (0, 2)], 0.0)
    assert window.room == 1
    assert window.acknowledged(0, 1, 1) == [1]
    assert window.acknowledged(0, 1, 1) == []
    assert window.room == 2


def test_a_range_takes_what_is_under_way_in_it() -> None:
    window = Window(10, 10.0)
    window.sent([(0, 5), (0, 7), (1, 6), (0, 90)], 0.0)
    assert window.acknowledged(0, 0, 2**48) == [5, 7, 90]
    assert window.acknowledged(1, 6, 8) == [6]
    assert len(window) == 0


def test_the_oldest_is_late_first_and_counts_no_more() -> None:
    """D8: redelivery after a time-out."""
    window = Window(10, 10.0)
    window.sent([(0, 1), (0, 2)], 0.0)
    window.sent([(0, 3)], 5.0)
    window.sent([(0, 1)], 6.0)  # again, so that it has more time
    assert window.deadline_s == 10
    assert window.late(9.9) == []
    assert window.late(10.0) == [(0, 2)]
    assert window.late(15.0) == [(0, 3)]
    assert window.late(16.0) == [(0, 1)]
    assert [window.deadline_s] == [None]
    assert window.room == 10


@given(st.lists(st.integers(0, 30), unique=True), st.integers(0, 30), st.integers(0, 30))
def test_a_range_is_the_same_as_its_messages_one_by_one(sent: list[int], a: int, b: int) -> None:
    first, last = sorted((a, b))
    together, singly = Window(100, 1.0), Window(100, 1.0)
    for window in (together, singly):
        window.sent([(0, offset) for offset in sent], 0.0)
    one_by_one = [n for n in range(first, last + 1) for _ in singly.acknowledged(0, n, n)]
    assert together.acknowledged(0, first, last) == one_by_one
    assert together.late(2.0) == singly.late(2.0)
