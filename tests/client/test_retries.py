"""How long to wait between attempts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.client.retries import RetryPolicy


def middle(low: float, high: float) -> float:
    return (low + high) / 2


def test_each_wait_is_twice_the_one_before_until_the_longest() -> None:
    """D10: exponential back-off."""
    policy = RetryPolicy(first_s=0.1, most_s=1.0)
    waits = [policy.delay_s(attempt, middle) for attempt in range(1, 7)]
    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0, 1.0])


@given(st.integers(1, 10_000), st.floats(0, 1))
def test_jitter_moves_a_wait_by_no_more_than_its_share(attempt: int, share: float) -> None:
    policy = RetryPolicy(first_s=0.5, most_s=60, jitter=0.2)
    wait_s = policy.delay_s(attempt, lambda low, high: low + (high - low) * share)
    plain_s = policy.delay_s(attempt, middle)
    assert plain_s * 0.799 <= wait_s <= plain_s * 1.201


@pytest.mark.parametrize(
    "wrong", [{"attempts": 0}, {"first_s": -1}, {"most_s": 0.01}, {"factor": 0.5}, {"jitter": 1.0}]
)
def test_a_policy_that_cannot_be_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"is|do not"):
        RetryPolicy(**wrong)  # type: ignore[arg-type]
