"""The table of fingers."""

from chordmq.cluster.ring.fingers import Fingers, nearer
from chordmq.cluster.ring.identifier import BITS


def test_fingers_are_fixed_from_the_farthest_to_the_successor_and_again() -> None:
    fingers = Fingers(0)
    successor = 1 << 60
    order = [fingers.next_to_fix(successor) for _ in range(5)]
    assert order == [BITS - 1, BITS - 2, BITS - 3, None, BITS - 1]


def test_entries_that_the_successor_has_taken_over_are_dropped() -> None:
    fingers = Fingers(0)
    fingers.fix(60, 1 << 60)
    fingers.fix(63, 1 << 63)
    while fingers.next_to_fix((1 << 61) + 5) is not None:
        pass
    assert fingers.members() == {1 << 63}


def test_the_dead_and_the_unregistered_are_forgotten_and_nobody_points_to_itself() -> None:
    fingers = Fingers(7)
    fingers.fix(63, 100)
    fingers.fix(62, 200)
    fingers.fix(61, 7)
    fingers.forget(100)
    assert fingers.members() == {200}
    fingers.keep([7, 100])
    assert fingers.members() == set()


def test_the_nearest_before_a_key_come_first() -> None:
    assert nearer(10, 100, [5, 20, 50, 99, 100, 120, 60]) == (99, 60, 50)
    assert nearer(200, 10, [5, 250, 100]) == (5, 250)
