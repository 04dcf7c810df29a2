"""What a query asks of places and times, read from the filters that Spark pushes down (pure)."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from chordmq.client.bulk import OffsetRange
from pyspark_chordmq.ranges import Place

END = 2**63 - 1
OFFSETS: dict[type[Filter], Callable[[int], tuple[int, int]]] = {
    EqualTo: lambda offset: (offset, offset + 1),
    GreaterThan: lambda offset: (offset + 1, END),
    GreaterThanOrEqual: lambda offset: (offset, END),
    LessThan: lambda offset: (0, offset),
    LessThanOrEqual: lambda offset: (0, offset + 1),
}
"""Where a comparison with an offset lets rows begin and end."""
LOWER_BOUNDS = (EqualTo, GreaterThan, GreaterThanOrEqual)


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowed:
    """The part of the topics that a query can have rows from; None for all."""

    topics: frozenset[Any] | None = None
    partitions: frozenset[Any] | None = None
    start: int = 0
    stop: int = END
    since_ms: int | None = None
    """No row is older. How new one is cannot be used: records may come out of order."""

    def has(self, place: Place) -> bool:
        """Return whether a partition can have rows."""
        topic, partition = place
        return (self.topics is None or topic in self.topics) and (
            self.partitions is None or partition in self.partitions
        )

    def cut(self, part: OffsetRange, since: Mapping[Place, int]) -> OffsetRange:
        """Return what is left of a range; empty if nothing is."""
        least = since.get((part.topic, part.partition), 0)
        start = max(part.start, self.start, least)
        return OffsetRange(part.topic, part.partition, start, max(start, min(part.stop, self.stop)))


def narrowed(filters: Iterable[Filter]) -> Narrowed:
    """Return what filters leave; one that says nothing about places and times changes nothing."""
    found = Narrowed()
    for one in filters:
        match getattr(one, "attribute", ()):
            case ("topic",):
                found = replace(found, topics=_both(found.topics, _values(one)))
            case ("partition",):
                found = replace(found, partitions=_both(found.partitions, _values(one)))
            case ("offset",) if type(one) in OFFSETS:
                start, stop = OFFSETS[type(one)](one.value)  # type: ignore[attr-defined]
                found = replace(found, start=max(found.start, start), stop=min(found.stop, stop))
            case ("timestamp",) if type(one) in LOWER_BOUNDS:
                moment = _milliseconds(one.value)  # type: ignore[attr-defined]
                found = replace(found, since_ms=max(found.since_ms or 0, moment))
    return found


def _values(one: Filter) -> frozenset[Any] | None:
    match one:
        case EqualTo(_, value) | EqualNullSafe(_, value):
            return frozenset([value])
        case In(_, values):
            return frozenset(values)
    return None


def _both(known: frozenset[Any] | None, more: frozenset[Any] | None) -> frozenset[Any] | None:
    return known if more is None else more if known is None else known & more


def _milliseconds(moment: datetime) -> int:
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int(aware.timestamp() * 1000)
