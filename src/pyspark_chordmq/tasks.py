"""Cuts what a query reads into tasks; the driver needs nothing of what decodes records."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql.datasource import InputPartition

from chordmq.client.bulk import OffsetRange
from pyspark_chordmq.options import Options
from pyspark_chordmq.ranges import Place, grouped, split

ROWS_PER_TASK_GOOD = 500_000
"""A task costs as much as some hundred thousand rows, so that small ranges share one."""


@dataclass(frozen=True, slots=True)
class Part:
    """Some offsets of one partition, and the files that have them if the log has not."""

    offsets: OffsetRange
    files: tuple[str, ...] = ()


class Task(InputPartition):
    """What one task reads."""

    def __init__(self, *parts: Part) -> None:
        super().__init__(parts)
        self.parts = parts


def planned(
    options: Options,
    ranges: Iterable[OffsetRange],
    first: Mapping[Place, int],
    *,
    cores: int | None = None,
) -> list[Task]:
    """Cut ranges into tasks; what lies before the log's first offsets comes from the archive.

    A driver does not know how many cores its executors have; it takes it that they have no fewer
    than itself.
    """
    live, gone = [], []
    for one in ranges:
        edge = min(max(first.get((one.topic, one.partition), 0), one.start), one.stop)
        if options.archive and edge > one.start:
            gone.append(replace(one, stop=edge))
            one = replace(one, start=edge)
        if one.size:
            live.append(one)
    pieces = split(live, options.tasks_min, options.rows_per_task)
    # Half of what a task may take: however unlike the ranges are, none gets more than all of it.
    good = max(1, min(ROWS_PER_TASK_GOOD, options.rows_per_task // 2))
    needed = -(-sum(one.size for one in pieces) // good)
    tasks = max(cores or len(os.sched_getaffinity(0)), options.tasks_min, needed)
    shared = [Task(*map(Part, group)) for group in grouped(pieces, tasks)]
    return [*_archived(options, gone), *shared]


def _archived(options: Options, ranges: list[OffsetRange]) -> list[Task]:
    if not ranges:
        return []
    # Only who reads an archive needs the packages that it is made with.
    from pyspark_chordmq.tier import Tier

    tier = Tier(Path(options.archive), sorted({one.topic for one in ranges}))
    lossless = options.fail_on_data_loss
    pieces = [piece for one in ranges for piece in tier.pieces(one, fail_on_data_loss=lossless)]
    return [Task(Part(*piece)) for piece in pieces]
