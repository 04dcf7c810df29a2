"""Runs a cluster under faults and checks what its clients saw: `python -m tests.chaos`."""

import argparse
import sys
import tempfile
from pathlib import Path
from random import SystemRandom

from tests.chaos.run import Plan, run


def main() -> int:
    """Run once; return 1 if something happened that must never happen."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, default=180.0)
    arguments.add_argument("--seed", type=int, default=SystemRandom().randrange(2**32))
    arguments.add_argument("--nodes", type=int, default=5)
    arguments.add_argument("--etcd", type=int, default=3)
    arguments.add_argument("--faults", help="only these, with commas")
    arguments.add_argument("--no-disks", action="store_true", help="no power cuts, no full disks")
    arguments.add_argument("--clocks", action="store_true", help="wrong clocks too, by libfaketime")
    arguments.add_argument("--directory", type=Path, help="keeps everything there")
    options = arguments.parse_args()
    plan = Plan(
        seconds=options.seconds,
        seed=options.seed,
        nodes=options.nodes,
        etcd=options.etcd,
        faults=tuple(options.faults.split(",")) if options.faults else (),
        disks=not options.no_disks,
        clocks=options.clocks,
    )
    directory = options.directory or Path(tempfile.mkdtemp(prefix="chaos-"))
    print(f"seed {plan.seed}, {plan.nodes} nodes, {plan.etcd} etcd, everything in {directory}")
    outcome = run(plan, directory)
    print(outcome.report())
    return 1 if outcome.anomalies else 0


if __name__ == "__main__":
    sys.exit(main())
