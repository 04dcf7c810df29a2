"""Filters of a query on places and times, and what they leave of a topic."""

from datetime import UTC, datetime

from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
)

from chordmq.client.bulk import OffsetRange
from pyspark_chordmq.filters import narrowed

WHOLE = OffsetRange("t", 1, 0, 1_000)
PLACE = ("partition",)
OFFSET = ("offset",)
TIME = ("timestamp",)


def test_partitions_and_topics_are_chosen_by_all_filters_together() -> None:
    """P2: what cannot have rows is not read."""
    left = narrowed([In(PLACE, (0, 1)), EqualTo(PLACE, 1), In(("topic",), ("t", "u"))])
    assert left.has(("t", 1))
    assert not left.has(("t", 0))
    assert not left.has(("v", 1))


def test_offsets_bound_a_range_on_both_sides() -> None:
    left = narrowed([GreaterThan(OFFSET, 9), LessThanOrEqual(OFFSET, 20), LessThan(OFFSET, 30)])
    assert left.cut(WHOLE, {}) == OffsetRange("t", 1, 10, 21)
    assert narrowed([EqualTo(OFFSET, 7)]).cut(WHOLE, {}) == OffsetRange("t", 1, 7, 8)
    assert narrowed([GreaterThanOrEqual(OFFSET, 5_000)]).cut(WHOLE, {}).size == 0


def test_time_bounds_a_range_from_below_only() -> None:
    """Records may come out of order: a later one can be older than a time, an earlier cannot."""
    moment = datetime(2026, 11, 1, tzinfo=UTC)
    left = narrowed([GreaterThanOrEqual(TIME, moment), LessThan(TIME, moment)])
    assert left.since_ms == int(moment.timestamp() * 1000)
    assert left.cut(WHOLE, {("t", 1): 40}) == OffsetRange("t", 1, 40, 1_000)


def test_other_filters_change_nothing() -> None:
    filters = [Not(EqualTo(PLACE, 1)), StringContains(("topic",), "x"), EqualTo(("key",), b"k")]
    assert narrowed(filters) == narrowed([])
