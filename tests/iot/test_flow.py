"""Flow control."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.errors import CommandQueueFull
from chordmq.iot.flow import Flow, SlowConsumer


@given(st.lists(st.integers()), st.integers(0, 5), st.integers(1, 5))
def test_no_more_is_under_way_than_there_is_credit_for(
    waiting: list[int], under_way: int, credit: int
) -> None:
    """E6: credit, and order."""
    sent = Flow(credit=credit).next(waiting, under_way, is_paused=False)
    assert list(sent) == waiting[: len(sent)]
    assert len(sent) == min(len(waiting), max(0, credit - under_way))


def test_nothing_is_sent_during_a_pause() -> None:
    """E6: pause and resume."""
    assert not Flow(credit=5).next([1, 2], 0, is_paused=True)


def test_a_slow_consumer_makes_the_sender_hear_of_it_or_loses_the_oldest() -> None:
    """E6: the slow-consumer policy."""
    with pytest.raises(CommandQueueFull):
        Flow(waiting_max=2).giving_way([1, 2])
    assert not Flow(waiting_max=2).giving_way([1])
    dropping = Flow(waiting_max=2, policy=SlowConsumer.DROP_OLDEST)
    assert dropping.giving_way([1, 2]) == [1]
