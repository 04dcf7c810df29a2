"""From what a member has to what it is to have, one answer at a time."""

from chordmq.broker.groups.assignors import NOTHING, Place
from chordmq.broker.groups.consumer_image import Holding, Step
from chordmq.broker.groups.reconciliation import reconciled

A, B, C = ((b"t" * 16, index) for index in range(3))


def anything(_: Place) -> bool:
    return True


def test_a_member_at_its_target_stays_as_it_is() -> None:
    stable = Holding(epoch=3, previous_epoch=2, assigned=frozenset({A}))
    assert reconciled(stable, frozenset({A}), 3, None, anything) is stable


def test_a_member_keeps_its_epoch_until_it_has_let_go() -> None:
    """C4: revoke before assign."""
    before = Holding(epoch=3, previous_epoch=2, assigned=frozenset({A, B}))
    target = frozenset({A, C})
    told = reconciled(before, target, 5, None, anything)
    assert (told.epoch, told.step) == (3, Step.UNREVOKED)
    assert (told.assigned, told.revoking) == (frozenset({A}), frozenset({B}))
    assert reconciled(told, target, 5, None, anything) is told
    assert reconciled(told, target, 5, frozenset({A, B}), anything) is told
    done = reconciled(told, target, 5, frozenset({A}), anything)
    assert (done.epoch, done.previous_epoch, done.step) == (5, 3, Step.STABLE)
    assert (done.assigned, done.revoking) == (target, NOTHING)


def test_a_member_that_has_nothing_of_it_any_more_goes_on_at_once() -> None:
    """C4: an eager classic member has let go of everything before it joins."""
    before = Holding(epoch=3, previous_epoch=2, assigned=frozenset({A, B}))
    after = reconciled(before, frozenset({C}), 4, NOTHING, anything)
    assert (after.epoch, after.assigned) == (4, frozenset({C}))


def test_what_others_hold_follows_later() -> None:
    before = Holding(epoch=1, previous_epoch=0, assigned=frozenset({A}))
    target = frozenset({A, B, C})
    part = reconciled(before, target, 2, None, lambda place: place != C)
    assert (part.epoch, part.step) == (2, Step.UNRELEASED)
    assert part.assigned == frozenset({A, B})
    whole = reconciled(part, target, 2, None, anything)
    assert (whole.step, whole.assigned) == (Step.STABLE, target)


def test_a_target_that_changes_on_the_way_takes_one_more_step() -> None:
    """C4: while it gave one partition up, the group has taken another from it."""
    told = Holding(
        epoch=3, step=Step.UNREVOKED, assigned=frozenset({A, C}), revoking=frozenset({B})
    )
    next_step = reconciled(told, frozenset({A}), 6, frozenset({A, C}), anything)
    assert (next_step.epoch, next_step.step) == (4, Step.UNREVOKED)
    assert next_step.revoking == frozenset({C})
