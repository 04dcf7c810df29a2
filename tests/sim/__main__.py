"""Runs simulations for a while: `python -m tests.sim --seconds 60`, or one schedule by its seed."""

import argparse
import sys
import time
from collections.abc import Callable
from random import SystemRandom

from tests.sim import replication, ring

PARTS: dict[str, Callable[[int], None]] = {"replication": replication.run, "ring": ring.run}
"""Each runs the schedule of a seed, and raises AssertionError if a rule was broken."""


def explore(part: str, first_seed: int, seconds: float) -> tuple[int, int | None]:
    """Run schedules from a seed on; return how many, and the first seed that failed."""
    end_s = time.monotonic() + seconds
    seed = first_seed
    while time.monotonic() < end_s:
        try:
            PARTS[part](seed)
        except AssertionError as fault:
            print(f"{part}: seed {seed}: {fault}")
            return seed - first_seed + 1, seed
        seed += 1
    return seed - first_seed, None


def main() -> int:
    """Explore each part for its share of the time; return 1 if a rule was broken."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, default=60.0)
    arguments.add_argument("--part", choices=sorted(PARTS), action="append")
    arguments.add_argument("--seed", type=int, help="run this one schedule of the part")
    options = arguments.parse_args()
    parts = options.part or sorted(PARTS)
    if options.seed is not None:
        for part in parts:
            PARTS[part](options.seed)
            print(f"{part}: seed {options.seed} keeps the rules")
        return 0
    failed = False
    for part in parts:
        first_seed = SystemRandom().randrange(2**40)
        share_s = options.seconds / len(parts)
        schedules, seed = explore(part, first_seed, share_s)
        print(f"{part}: {schedules} schedules from seed {first_seed}, {schedules / share_s:.0f}/s")
        failed |= seed is not None
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
