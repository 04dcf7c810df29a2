"""Runs simulations for a while: `python -m tests.sim --seconds 60`, or one schedule by its seed."""

import argparse
import sys

from tests.sim import controllers, groups, replication, ring
from tests.sim.exploration import Run, explore

PARTS: dict[str, Run] = {
    "controllers": controllers.run,
    "groups": groups.run,
    "replication": replication.run,
    "ring": ring.run,
}


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
        found = explore(PARTS[part], options.seconds / len(parts))
        rate = found.schedules / max(found.seconds, 1e-9)
        print(f"{part}: {found.schedules} schedules from seed {found.first_seed}, {rate:.0f}/s")
        if found.seed is not None:
            print(f"{part}: seed {found.seed}: {found.fault}")
            failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
