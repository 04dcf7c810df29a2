"""Offsets of a query as plain data."""

from hypothesis import given
from hypothesis import strategies as st

from chordmq.client.bulk import OffsetRange
from pyspark_chordmq.ranges import (
    from_json,
    grouped,
    limited,
    ranges_between,
    split,
    to_json,
)

PLACES = st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 3))
OFFSETS = st.dictionaries(PLACES, st.integers(0, 1_000_000))


@given(OFFSETS)
def test_offsets_survive_a_checkpoint(offsets: dict[tuple[str, int], int]) -> None:
    assert from_json(to_json(offsets)) == offsets


@given(OFFSETS, OFFSETS, st.integers(1, 1_000_000))
def test_a_limit_is_kept_and_nobody_goes_back(
    start: dict[tuple[str, int], int], latest: dict[tuple[str, int], int], rows_max: int
) -> None:
    end = limited(start, latest, rows_max)
    steps = {place: end[place] - start.get(place, 0) for place in latest}
    assert min(steps.values(), default=0) >= 0
    assert sum(steps.values()) <= rows_max + len(latest)
    behind = [place for place in latest if latest[place] > start.get(place, 0)]
    assert all(steps[place] > 0 for place in behind)


@given(
    st.lists(st.builds(OffsetRange, st.just("t"), st.integers(0, 5), st.just(7), st.just(900))),
    st.integers(1, 40),
    st.integers(1, 500),
)
def test_a_split_covers_the_same_offsets(
    ranges: list[OffsetRange], parts_min: int, rows_max: int
) -> None:
    parts = split(ranges, parts_min, rows_max)
    assert [(one.partition, o) for one in ranges for o in range(one.start, one.stop)] == [
        (one.partition, o) for one in parts for o in range(one.start, one.stop)
    ]
    assert all(0 < part.size <= rows_max for part in parts)


def test_a_partition_that_is_new_is_read_from_its_first_offset() -> None:
    assert ranges_between({("t", 0): 5}, {("t", 0): 5, ("t", 1): 9}, {("t", 1): 3}) == [
        OffsetRange("t", 1, 3, 9)
    ]


def test_groups_have_about_as_many_offsets() -> None:
    ranges = [OffsetRange("t", place, 0, size) for place, size in enumerate((5, 90, 40, 45, 10))]
    groups = grouped(ranges, 2)
    assert [sum(one.size for one in group) for group in groups] == [95, 95]
    assert grouped(ranges, 5) == [[one] for one in ranges]
    assert grouped([], 2) == []


def test_there_are_tasks_for_all_cores() -> None:
    parts = split([OffsetRange("t", 0, 0, 1_000), OffsetRange("t", 1, 0, 10)], 8, 10_000)
    assert len(parts) >= 8
    assert max(part.size for part in parts) <= 1_010 // 8 + 1
