"""Offsets of a query as plain data: how far it may go, and which part of a log each task reads."""

import itertools
from collections.abc import Iterable, Mapping, Sequence

from chordmq.client.bulk import OffsetRange

Place = tuple[str, int]
"""A topic and one of its partitions."""
Offsets = dict[Place, int]

Json = dict[str, dict[str, int]]
"""Offsets as Spark keeps them in a checkpoint: topic, partition, offset."""


def to_json(offsets: Mapping[Place, int]) -> Json:
    """Return offsets as they are kept in a checkpoint."""
    found: Json = {}
    for (topic, partition), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(partition)] = offset
    return found


def from_json(stored: Mapping[str, Mapping[str, int]]) -> Offsets:
    """Return offsets from a checkpoint, or from an option."""
    return {
        (topic, int(partition)): int(offset)
        for topic, partitions in stored.items()
        for partition, offset in partitions.items()
    }


def ranges_between(
    start: Mapping[Place, int], stop: Mapping[Place, int], first: Mapping[Place, int]
) -> list[OffsetRange]:
    """Return what lies between two offsets; a partition that is new is read from its first."""
    return [
        OffsetRange(*place, begin, end)
        for place, end in sorted(stop.items())
        if (begin := start.get(place, first.get(place, 0))) < end
    ]


def limited(start: Mapping[Place, int], latest: Mapping[Place, int], rows_max: int) -> Offsets:
    """Return how far to go so that at most `rows_max` offsets are read, each partition its share.

    Every partition with something to read goes on by one at least, so that none starves.
    """
    backlog = {place: end - start.get(place, 0) for place, end in latest.items()}
    total = sum(size for size in backlog.values() if size > 0)
    if total <= rows_max:
        return {place: max(end, start.get(place, 0)) for place, end in latest.items()}
    return {
        place: start.get(place, 0) + (max(1, size * rows_max // total) if size > 0 else 0)
        for place, size in backlog.items()
    }


def split(ranges: Iterable[OffsetRange], parts_min: int, rows_max: int) -> list[OffsetRange]:
    """Cut ranges so that there are enough for all cores, and none is larger than `rows_max`."""
    found = list(ranges)
    total = sum(one.size for one in found)
    share = -(-total // parts_min) if parts_min > len(found) else rows_max
    return [part for one in found for part in _cut(one, max(1, min(share, rows_max)))]


def _cut(whole: OffsetRange, rows_max: int) -> list[OffsetRange]:
    pieces = -(-whole.size // rows_max)
    edges = [whole.start + whole.size * index // pieces for index in range(pieces + 1)]
    return [
        OffsetRange(whole.topic, whole.partition, begin, end)
        for begin, end in itertools.pairwise(edges)
    ]


def grouped(ranges: Sequence[OffsetRange], groups_max: int) -> list[list[OffsetRange]]:
    """Share ranges among a number of groups, so that each has about as many offsets."""
    if len(ranges) <= groups_max:
        return [[one] for one in ranges]
    groups: list[list[OffsetRange]] = [[] for _ in range(groups_max)]
    sizes = [0] * groups_max
    for one in sorted(ranges, key=lambda one: -one.size):
        least = sizes.index(min(sizes))
        groups[least].append(one)
        sizes[least] += one.size
    return groups
