"""How a member gets from what it has to what it is to have, one answer at a time (KIP-848).

A member first gives up what is not its own any more, and says so; then it takes the epoch of its
target and whatever of the target is free; what others still hold follows when they let it go.
"""

from collections.abc import Callable
from dataclasses import replace

from chordmq.broker.groups.assignors import NOTHING, Assignment, Place
from chordmq.broker.groups.consumer_image import Holding, Step


def reconciled(
    holding: Holding,
    target: Assignment,
    target_epoch: int,
    owned: Assignment | None,
    is_free: Callable[[Place], bool],
) -> Holding:
    """Return what the member has after this answer.

    `owned` is what the member says that it has; None if it says nothing, as when nothing changed.
    """
    if holding.step is Step.STABLE and holding.epoch == target_epoch:
        return holding
    epoch = holding.epoch
    if holding.step is Step.UNREVOKED:
        if _still_has(owned, holding.revoking):
            return holding
        epoch += 1
    kept = holding.assigned & target
    revoking = holding.assigned - target
    if revoking and _still_has(owned, revoking):
        return _at(holding, epoch, Step.UNREVOKED, kept, revoking)
    missing = target - kept
    free = frozenset(place for place in missing if is_free(place))
    step = Step.STABLE if free == missing else Step.UNRELEASED
    return _at(holding, target_epoch, step, kept | free, NOTHING)


def _still_has(owned: Assignment | None, revoking: Assignment) -> bool:
    return owned is None or not owned.isdisjoint(revoking)


def _at(
    holding: Holding, epoch: int, step: Step, assigned: Assignment, revoking: Assignment
) -> Holding:
    previous = holding.previous_epoch if epoch == holding.epoch else holding.epoch
    return replace(
        holding,
        epoch=epoch,
        previous_epoch=previous,
        step=step,
        assigned=assigned,
        revoking=revoking,
    )
