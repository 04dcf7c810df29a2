"""Times the tree of filters that all fronts share: 100,000 subscriptions, and who wants a name."""

import random
import resource
import time

from rich.console import Console
from rich.table import Table

from chordmq.broker.names import Names, Rule
from chordmq.broker.subscriptions import FilterTree

DEVICES, ONE_LEVEL, REST = 60_000, 30_000, 10_000
LOOK_UPS = 20_000
RULES = 1_000


def filters() -> list[str]:
    """Return what a fleet's devices and services subscribe to."""
    found = [f"fleet/{number % 100}/d{number}/commands" for number in range(DEVICES)]
    found += [f"fleet/+/d{number}/alarms" for number in range(ONE_LEVEL)]
    return [*found, *(f"fleet/{number % 100}/d{number}/#" for number in range(REST))]


def names(chance: random.Random) -> list[str]:
    """Return names that are published to."""
    kinds = ("commands", "alarms", "telemetry")
    devices = (chance.randrange(DEVICES) for _ in range(LOOK_UPS))
    return [f"fleet/{device % 100}/d{device}/{chance.choice(kinds)}" for device in devices]


def measure() -> list[tuple[str, str]]:
    """Return what was found, by what was done."""
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tree: FilterTree[int] = FilterTree()
    wanted = filters()
    started = time.perf_counter()
    for number, one in enumerate(wanted):
        tree.add(one, number)
    added_s = time.perf_counter() - started
    size_mb = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb) / 1024
    looked_up = names(random.Random(1))
    started = time.perf_counter()
    found = sum(len(list(tree.find(name))) for name in looked_up)
    found_s = time.perf_counter() - started
    routed_s = _routing(looked_up)
    return [
        ("filters", f"{len(wanted):,}"),
        ("added", f"{added_s / len(wanted) * 1e6:.1f} µs each"),
        ("memory", f"{size_mb:.0f} MB"),
        ("look-up", f"{found_s / LOOK_UPS * 1e6:.1f} µs"),
        ("found on average", f"{found / LOOK_UPS:.2f}"),
        (f"where a name goes, by {RULES:,} rules", f"{routed_s / LOOK_UPS * 1e6:.1f} µs"),
    ]


def _routing(looked_up: list[str]) -> float:
    rules = Names(Rule(f"fleet/{n}/+/telemetry", f"t{n % 10}", "{3}") for n in range(RULES))
    started = time.perf_counter()
    for name in looked_up:
        rules.destination(name)
    return time.perf_counter() - started


if __name__ == "__main__":
    table = Table("what", "value")
    for row in measure():
        table.add_row(*row)
    Console().print(table)
