"""Proves that the simulation of replication keeps its rules, and that it would notice if not."""

import pytest

from tests.sim.brokers import Kinds
from tests.sim.exploration import check_found, check_fresh
from tests.sim.mutants import MUTANTS
from tests.sim.replication import run, simulate

TELLING = [4, 33, 39, 75, 105, 271, 559, 1412]
"""Seeds of schedules that broke a rule, with a bug of ours or a planted one; run for ever."""
SCHEDULES_MAX = 15_000
SEED = 105


def test_no_schedule_loses_or_changes_what_was_acknowledged() -> None:
    """X5: crashes, torn disks, pauses, lost leases, late and lost messages, drifting clocks."""
    check_fresh("replication", run)


@pytest.mark.parametrize("seed", TELLING)
def test_schedules_that_show_a_bug_keep_the_rules_without_it(seed: int) -> None:
    simulate(seed, Kinds())
    simulate(seed, Kinds(waits_for_disk=False))


@pytest.mark.parametrize("name", MUTANTS)
def test_planted_bugs_are_found(name: str) -> None:
    """X5: the simulation notices each of the bugs that others have had."""
    check_found(lambda seed: simulate(seed, MUTANTS[name]), SCHEDULES_MAX)


def test_a_seed_replays_its_schedule_exactly() -> None:
    """X5: the same seed gives the same history."""
    first, second = simulate(SEED, Kinds()), simulate(SEED, Kinds())
    assert (first.acked, first.state, first.now_s) == (second.acked, second.state, second.now_s)
    assert first.acked
