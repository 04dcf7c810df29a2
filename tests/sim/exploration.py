"""Runs schedules from a fresh seed on, until one breaks a rule or the time is up."""

import time
from collections.abc import Callable
from random import SystemRandom
from typing import NamedTuple

import pytest

Run = Callable[[int], object]
"""Runs the schedule of a seed, and raises AssertionError if a rule was broken."""
FRESH_S = 12.0
"""For each part in the tests: less than a minute for all of them."""


class Explored(NamedTuple):
    """How far an exploration came."""

    first_seed: int
    schedules: int
    seconds: float
    seed: int | None = None
    """Of the schedule that broke a rule."""
    fault: str = ""


def explore(run: Run, seconds: float) -> Explored:
    """Run schedules from a fresh seed on; stop at the first that breaks a rule."""
    first_seed = seed = SystemRandom().randrange(2**40)
    began_s = time.monotonic()
    while (spent_s := time.monotonic() - began_s) < seconds:
        try:
            run(seed)
        except AssertionError as fault:
            return Explored(first_seed, seed - first_seed + 1, spent_s, seed, str(fault))
        seed += 1
    return Explored(first_seed, seed - first_seed, spent_s)


def check_fresh(part: str, run: Run) -> None:
    """Fail, with the command that replays it, if a fresh schedule breaks a rule."""
    found = explore(run, FRESH_S)
    print(f"{part}: {found.schedules} schedules from seed {found.first_seed}")
    if found.seed is not None:
        pytest.fail(f"python -m tests.sim --part {part} --seed {found.seed}: {found.fault}")


def check_found(run: Run, schedules_max: int) -> None:
    """Fail unless one of the first schedules shows the bug that is planted in them."""
    for seed in range(schedules_max):
        try:
            run(seed)
        except AssertionError:
            return
    pytest.fail(f"not found in {schedules_max} schedules")
