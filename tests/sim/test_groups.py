"""Groups under simulated faults of their coordinators, and the simulation under planted bugs."""

import pytest

from tests.sim.brokers import Kinds
from tests.sim.coordinator import Coordinator
from tests.sim.exploration import check_found, check_fresh
from tests.sim.group_mutants import MUTANTS
from tests.sim.groups import run, simulate

TELLING = [126, 128, 153, 203, 455, 615]
"""Schedules that broke a rule before coordinators waited for what they had read, and before they
refused to write what was decided in an earlier epoch."""
SCHEDULES_MAX = 3_000
SEED = 203


def test_no_schedule_loses_what_members_were_told() -> None:
    """C13, X5: offsets never go back, and a generation is one, whoever coordinates."""
    check_fresh("groups", run)


@pytest.mark.parametrize("seed", TELLING)
def test_schedules_that_once_found_a_bug_keep_the_rules(seed: int) -> None:
    simulate(seed, Kinds())


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_planted_bug_is_found(mutant: type[Coordinator]) -> None:
    """X5: the simulation finds bugs that are there."""
    check_found(lambda seed: simulate(seed, Kinds(), mutant), SCHEDULES_MAX)


def test_a_seed_replays_its_schedule_exactly() -> None:
    first, second = (simulate(SEED, Kinds()) for _ in range(2))
    assert (first.seen, first.now_s) == (second.seen, second.now_s)
    assert first.acknowledged
