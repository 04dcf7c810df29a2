"""Cuts what a query reads into tasks; the driver needs nothing of what decodes records."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from pyspark.sql.datasource import InputPartition

from chordmq.client.bulk import OffsetRange
from pyspark_chordmq.options import Options
from pyspark_chordmq.ranges import Place, split


class Part(InputPartition):
    """The offsets that one task reads, and the files that have them if the log has not."""

    def __init__(self, offsets: OffsetRange, files: tuple[str, ...] = ()) -> None:
        super().__init__(offsets)
        self.offsets = offsets
        self.files = files


def planned(
    options: Options, ranges: Iterable[OffsetRange], first: Mapping[Place, int]
) -> list[Part]:
    """Cut ranges into tasks; what lies before the log's first offsets comes from the archive."""
    live, gone = [], []
    for one in ranges:
        edge = min(max(first.get((one.topic, one.partition), 0), one.start), one.stop)
        if options.archive and edge > one.start:
            gone.append(replace(one, stop=edge))
            one = replace(one, start=edge)
        if one.size:
            live.append(one)
    parts = split(live, options.tasks_min, options.rows_per_task)
    return [*_archived(options, gone), *map(Part, parts)]


def _archived(options: Options, ranges: list[OffsetRange]) -> list[Part]:
    if not ranges:
        return []
    # Only who reads an archive needs the packages that it is made with.
    from pyspark_chordmq.tier import Tier

    tier = Tier(Path(options.archive), sorted({one.topic for one in ranges}))
    lossless = options.fail_on_data_loss
    pieces = [piece for one in ranges for piece in tier.pieces(one, fail_on_data_loss=lossless)]
    return [Part(*piece) for piece in pieces]
