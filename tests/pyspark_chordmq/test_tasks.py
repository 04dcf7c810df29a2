"""How the ranges of a query become tasks, without anything that only tasks need."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    ranges = [OffsetRange("t", 0, 0, 250), OffsetRange("t", 1, 5, 15)]
    tasks = planned(options, ranges, {}, cores=1)
    pieces = [(one.offsets.partition, one.offsets.size) for task in tasks for one in task.parts]
    assert pieces == [(0, 83), (0, 83), (0, 84), (1, 10)]


@pytest.mark.parametrize(
    ("rows", "cores", "tasks_min", "tasks"),
    [
        (1_000, 2, 1, 2),
        (125_000, 2, 1, 2),
        (125_000, 1, 1, 2),
        (125_000, 1, 5, 5),
        (400_000, 2, 1, 7),
        (2_500_000, 2, 1, 8),
        (1_000, 16, 1, 8),
    ],
)
def test_small_ranges_share_tasks_and_no_core_is_without(
    rows: int, cores: int, tasks_min: int, tasks: int
) -> None:
    """P2: a micro-batch of few rows does not pay for a task of each partition."""
    ranges = [OffsetRange("t", partition, 5, 5 + rows) for partition in range(8)]
    options = Options(bootstrap="", tasks_min=tasks_min)
    found = planned(options, ranges, {}, cores=cores)
    assert len(found) == tasks
    read = [part.offsets for task in found for part in task.parts]
    assert sorted(read, key=lambda one: one.partition) == ranges


@given(
    st.lists(st.integers(1, 2_000_000), max_size=30), st.integers(1, 2_000_000), st.integers(1, 9)
)
def test_no_task_has_more_rows_than_are_allowed(
    sizes: list[int], rows_max: int, cores: int
) -> None:
    ranges = [OffsetRange("t", number, 0, size) for number, size in enumerate(sizes)]
    # Whoever allows only few rows gets many tasks; that is not what this looks at.
    options = Options(bootstrap="", rows_per_task=max(rows_max, sum(sizes) // 1000, 1))
    tasks = planned(options, ranges, {}, cores=cores)
    rows = [sum(part.offsets.size for part in task.parts) for task in tasks]
    assert all(0 < one <= options.rows_per_task for one in rows)
    assert sum(rows) == sum(sizes)
