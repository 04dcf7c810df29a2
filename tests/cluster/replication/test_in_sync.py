"""Proves who is in sync and who stays eligible when the set changes."""

from chordmq.cluster.replication.in_sync import needed, with_isr
from chordmq.cluster.state import PartitionState

FULL = PartitionState(replicas=(1, 2, 3), leader=1, isr=(1, 2, 3))


def test_a_set_that_is_large_enough_keeps_nobody_eligible_besides() -> None:
    assert with_isr(FULL, {1, 2}, 2) == PartitionState(replicas=(1, 2, 3), leader=1, isr=(1, 2))


def test_those_who_leave_a_set_that_gets_too_small_stay_eligible() -> None:
    small = with_isr(with_isr(FULL, {1, 2}, 2), {1}, 2)
    assert (small.isr, small.elr) == ((1,), (2,))
    assert with_isr(small, (), 2).elr == (1, 2)


def test_a_set_that_grows_to_its_minimum_empties_the_eligible() -> None:
    small = with_isr(FULL, {1}, 2)
    assert small.elr == (2, 3)
    assert with_isr(small, {1, 3}, 2).elr == ()


def test_no_more_in_sync_replicas_are_needed_than_there_are_replicas() -> None:
    assert needed(2, 1) == 1
    assert needed(2, 3) == 2
