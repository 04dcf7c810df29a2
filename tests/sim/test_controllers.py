"""Competing controllers under simulated faults, and the simulation under planted bugs."""

import pytest

from tests.sim.brokers import Kinds
from tests.sim.controller_mutants import MUTANTS
from tests.sim.controllers import Habits, run, simulate
from tests.sim.exploration import check_found, check_fresh

TELLING = [425]
"""Schedules in which a broker crashed on its way back, and seemed to have lost nothing."""
SCHEDULES_MAX = 6_000
SEED = 7


def test_no_schedule_has_two_controllers_move_a_partition() -> None:
    """X5: the store decides, whoever takes himself for the controller."""
    check_fresh("controllers", run)


@pytest.mark.parametrize("seed", TELLING)
def test_schedules_that_once_found_a_bug_keep_the_rules(seed: int) -> None:
    simulate(seed, Kinds(waits_for_disk=False), Habits())


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_bug_is_found(name: str) -> None:
    """X5: the simulation finds bugs that are there."""
    check_found(MUTANTS[name], SCHEDULES_MAX)


def test_a_seed_replays_its_schedule_exactly() -> None:
    first, second = (simulate(SEED, Kinds(), Habits()) for _ in range(2))
    assert (first.seen, first.state, first.now_s) == (second.seen, second.state, second.now_s)
    assert first.acked
