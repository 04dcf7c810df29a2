"""The ring under simulated faults, and the simulation under planted bugs."""

from random import Random

import pytest

from tests.sim import ring
from tests.sim.exploration import check_found, check_fresh
from tests.sim.ring_mutants import MUTANTS

SCHEDULES_MAX = 1_000
KEPT_SEEDS = [6, 24, 34, 145, 2347, 3842]
"""Schedules that have found a bug once, in the ring or in what was taken for its invariant."""


def test_fresh_schedules_keep_the_rules() -> None:
    """A8, X5: the ring keeps Zave's invariant, and heals by itself from what breaks it."""
    check_fresh("ring", ring.run)


@pytest.mark.parametrize("seed", KEPT_SEEDS)
def test_schedules_that_once_found_a_bug_keep_the_rules(seed: int) -> None:
    ring.run(seed)


@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_a_planted_bug_is_found(name: str) -> None:
    """X5: the simulation finds bugs that are there."""
    check_found(MUTANTS[name], SCHEDULES_MAX)


def test_a_seed_replays_its_schedule_exactly() -> None:
    def trace(seed: int) -> list[str]:
        run = ring.Wild(Random(seed))
        run.run()
        return [
            f"{me}: {member.neighbourhood.successors} {member.fingers.table} {member.hops}"
            for me, member in sorted(run.members.items())
        ]

    assert trace(17) == trace(17)
