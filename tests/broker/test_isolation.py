"""What readers of committed transactions see: the stable offset and the aborted transactions."""

from hypothesis import given
from hypothesis import strategies as st

from chordmq.broker.isolation import Isolation

END = 1_000_000


def test_without_transactions_all_that_is_committed_is_stable() -> None:
    assert Isolation().stable_offset(42) == 42


def test_nothing_behind_an_open_transaction_is_stable() -> None:
    isolation = Isolation()
    isolation.begin(1, 10)
    isolation.begin(1, 12)
    assert isolation.stable_offset(5) == 5
    assert isolation.stable_offset(50) == 10
    assert isolation.first_offset(1) == 10


def test_a_transaction_is_decided_only_when_its_marker_is_committed() -> None:
    isolation = Isolation()
    isolation.begin(1, 10)
    isolation.end(1, 20, is_commit=True)
    assert isolation.stable_offset(20) == 10
    assert isolation.stable_offset(21) == 21


def test_the_oldest_open_transaction_holds_back_those_decided_after_it() -> None:
    isolation = Isolation()
    isolation.begin(1, 10)
    isolation.begin(2, 11)
    isolation.end(2, 12, is_commit=True)
    assert isolation.stable_offset(50) == 10
    isolation.end(1, 13, is_commit=False)
    assert isolation.stable_offset(50) == 50


def test_a_marker_without_a_transaction_has_no_effect() -> None:
    isolation = Isolation()
    isolation.end(1, 10, is_commit=False)
    assert isolation.aborted == []
    assert isolation.stable_offset(11) == 11


def test_aborted_transactions_are_forgotten_with_their_records() -> None:
    isolation = Isolation()
    for first in (10, 20, 30):
        isolation.begin(1, first)
        isolation.end(1, first + 5, is_commit=False)
    isolation.forget_before(26)
    assert [entry.first_offset for entry in isolation.aborted] == [30]


Steps = list[tuple[int, bool | None]]


@given(
    st.lists(st.tuples(st.integers(0, 4), st.sampled_from([None, None, True, False])), max_size=40),
    st.integers(0, 40),
    st.integers(0, 40),
)
def test_every_aborted_transaction_of_a_range_is_found(steps: Steps, start: int, size: int) -> None:
    """Against a search through all of them; None is a batch, True and False are markers."""
    isolation = Isolation()
    opened: dict[int, int] = {}
    aborted: list[tuple[int, int, int]] = []
    for offset, (producer, outcome) in enumerate(steps):
        if outcome is None:
            isolation.begin(producer, offset)
            opened.setdefault(producer, offset)
        else:
            isolation.end(producer, offset, is_commit=outcome)
            first = opened.pop(producer, None)
            if first is not None and not outcome:
                aborted.append((producer, first, offset))
        stable = min(opened.values(), default=offset + 1)
        assert isolation.stable_offset(offset + 1) == stable
    end = start + size
    expected = [(p, first) for p, first, last in aborted if last >= start and first < end]
    assert [one[:2] for one in isolation.aborted_between(start, end)] == expected
