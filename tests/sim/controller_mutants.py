"""Bugs planted in controllers and in how brokers come back; the simulation has to find each."""

from collections.abc import Callable

from msgspec.structs import replace

from chordmq.cluster.controller import Place, View
from chordmq.cluster.state import PartitionState
from tests.sim.brokers import Kinds
from tests.sim.controllers import Deciding, Habits, simulate


class SettlesTooEarly(Deciding):
    """Gives up copies before those that take their place have all."""

    def _next(
        self, state: PartitionState, view: View, place: Place, balances: bool
    ) -> PartitionState:
        state = super()._next(state, view, place, balances)
        kept = tuple(one for one in state.replicas if one not in state.removing)
        return replace(state, replicas=kept, removing=()) if state.removing else state


class LeadsInTheSameEpoch(Deciding):
    """Names another leader without beginning an epoch."""

    def _next(
        self, state: PartitionState, view: View, place: Place, balances: bool
    ) -> PartitionState:
        changed = super()._next(state, view, place, balances)
        return replace(changed, leader_epoch=state.leader_epoch)


class ElectsWhoeverLives(Deciding):
    """Has a living replica lead when nobody does, in sync or not."""

    def _next(
        self, state: PartitionState, view: View, place: Place, balances: bool
    ) -> PartitionState:
        state = super()._next(state, view, place, balances)
        able = [one for one in state.replicas if one in view.live]
        if state.leader >= 0 or not able:
            return state
        return replace(state, leader=able[0], leader_epoch=state.leader_epoch + 1, isr=(able[0],))


def with_habits(habits: Habits, *, waits_for_disk: bool = True) -> Callable[[int], object]:
    """Return a run in which controllers or returning brokers behave so."""
    return lambda seed: simulate(seed, Kinds(waits_for_disk=waits_for_disk), habits)


MUTANTS: dict[str, Callable[[int], object]] = {
    "decides without the key": with_habits(Habits(compares_key=False)),
    "decides on an older state": with_habits(Habits(compares_revision=False)),
    "settles moves too early": with_habits(Habits(controller=SettlesTooEarly)),
    "begins no epoch": with_habits(Habits(controller=LeadsInTheSameEpoch)),
    "elects whoever lives": with_habits(Habits(controller=ElectsWhoeverLives)),
    "comes back as if never gone": with_habits(Habits(steps_back=False), waits_for_disk=False),
    "forgets an unclean start": with_habits(Habits(remembers_loss=False), waits_for_disk=False),
}
