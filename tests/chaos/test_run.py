"""A short run of chaos, as part of the slow tests; `make chaos` runs longer ones."""

from pathlib import Path
from random import SystemRandom

import pytest

from tests.chaos.run import Plan, run

SECONDS = 40


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_nothing_is_lost_doubled_or_reordered_under_faults(tmp_path: Path) -> None:
    """A9, C13, X5: kill -9, pauses, parted networks, power cuts, full disks, an etcd that fails."""
    # It makes network namespaces and mounts: without root it fails, and says so.
    plan = Plan(seconds=SECONDS, seed=SystemRandom().randrange(2**32), nodes=3, etcd=3)
    outcome = run(plan, tmp_path)
    print(outcome.report())
    assert outcome.anomalies == {}
    assert outcome.counts["acknowledged"] > 1_000
    assert outcome.counts["committed"] > 10
