"""How the ranges of a query become tasks, without anything that only tasks need."""

import subprocess
import sys

from chordmq.client.bulk import OffsetRange
from pyspark_chordmq.options import Options
from pyspark_chordmq.tasks import planned


def test_a_driver_plans_without_what_decodes_records() -> None:
    """P2: each stream starts a process that only plans, and Spark waits ten seconds for it."""
    code = "import sys, pyspark_chordmq; print({'numpy', 'pyarrow'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_large_ranges_are_split_and_small_ones_are_not() -> None:
    options = Options(bootstrap="", rows_per_task=100, tasks_min=1)
    tasks = planned(options, [OffsetRange("t", 0, 0, 250), OffsetRange("t", 1, 5, 15)], {})
    assert [(one.offsets.partition, one.offsets.size) for one in tasks] == [
        (0, 83),
        (0, 83),
        (0, 84),
        (1, 10),
    ]
