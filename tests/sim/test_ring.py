"""The ring under simulated faults, and the simulation under planted bugs."""

from random import Random, SystemRandom

import pytest

from tests.sim import ring
from tests.sim.ring_mutants import MUTANTS

FRESH_SCHEDULES = 400
KEPT_SEEDS = [6, 24, 34, 145, 2347, 3842]
"""Schedules that have found a bug once, in the ring or in what was taken for its invariant."""


def test_fresh_schedules_keep_the_rules() -> None:
    """A8, X5: the ring keeps Zave's invariant, and heals by itself from what breaks it."""
    first = SystemRandom().randrange(2**40)
    print(f"schedules from seed {first}: python -m tests.sim --part ring --seed {first}")
    for seed in range(first, first + FRESH_SCHEDULES):
        try:
            ring.run(seed)
        except AssertionError as fault:
            pytest.fail(f"python -m tests.sim --part ring --seed {seed}: {fault}")


@pytest.mark.parametrize("seed", KEPT_SEEDS)
def test_schedules_that_once_found_a_bug_keep_the_rules(seed: int) -> None:
    ring.run(seed)


@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_a_planted_bug_is_found(name: str) -> None:
    """X5: the simulation finds bugs that are there."""
    for seed in range(1_000):
        try:
            MUTANTS[name](seed)
        except AssertionError:
            return
    pytest.fail("the simulation has missed it")


def test_a_seed_replays_its_schedule_exactly() -> None:
    def trace(seed: int) -> list[str]:
        run = ring.Wild(Random(seed))
        run.run()
        return [
            f"{me}: {member.neighbourhood.successors} {member.fingers.table} {member.hops}"
            for me, member in sorted(run.members.items())
        ]

    assert trace(17) == trace(17)
