"""Assignors: every partition has one reader, loads are even, and little moves."""

import hypothesis.strategies as st
from hypothesis import given

from chordmq.broker.groups.assignors import (
    ASSIGNORS,
    Assignment,
    Reader,
    Readers,
    assign_ranges,
    assign_uniform,
)

A, B = b"a" * 16, b"b" * 16
TOPICS = [bytes([n]) * 16 for n in range(4)]


def readers(*topics: frozenset[bytes]) -> Readers:
    return {f"m{n}": Reader(each) for n, each in enumerate(topics)}


def indexes(assignment: Assignment, topic: bytes) -> list[int]:
    return sorted(index for id_, index in assignment if id_ == topic)


@given(
    st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 7), min_size=1),
    st.lists(
        st.tuples(
            st.frozensets(st.sampled_from(TOPICS)),
            st.frozensets(st.tuples(st.sampled_from(TOPICS), st.integers(0, 8))),
        ),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from(sorted(ASSIGNORS)),
)
def test_every_partition_has_exactly_one_of_its_readers(
    partitions: dict[bytes, int],
    members: list[tuple[frozenset[bytes], Assignment]],
    name: str,
) -> None:
    """C4: whatever members had before."""
    wanting = {f"m{n}": Reader(topics, None, had) for n, (topics, had) in enumerate(members)}
    given = ASSIGNORS[name](wanting, partitions)
    places = sorted(place for assignment in given.values() for place in assignment)
    assert places == sorted(
        (topic, index)
        for topic, count in partitions.items()
        if any(topic in reader.topics for reader in wanting.values())
        for index in range(count)
    )
    assert all(place[0] in wanting[m].topics for m, parts in given.items() for place in parts)
    assert given.keys() == wanting.keys()


@given(st.integers(1, 9), st.lists(st.integers(0, 20), min_size=2, max_size=2))
def test_members_with_the_same_topics_get_as_much_as_each_other(
    members: int, counts: list[int]
) -> None:
    """C4: uniform is balanced, and does not move what is balanced."""
    partitions = dict(zip((A, B), counts, strict=True))
    given = assign_uniform(readers(*[frozenset({A, B})] * members), partitions)
    loads = [len(assignment) for assignment in given.values()]
    assert max(loads) - min(loads) <= 1
    before = {name: Reader(frozenset({A, B}), None, parts) for name, parts in given.items()}
    assert assign_uniform(before, partitions) == given


def test_only_what_must_moves_when_a_member_comes_or_goes() -> None:
    """C4: uniform is sticky."""
    partitions = {A: 12}
    three = assign_uniform(readers(*[frozenset({A})] * 3), partitions)
    kept = {name: Reader(frozenset({A}), None, parts) for name, parts in three.items()}
    four = assign_uniform({**kept, "m3": Reader(frozenset({A}))}, partitions)
    assert sum(len(four[name] - three[name]) for name in three) == 0
    assert len(four["m3"]) == 3
    del kept["m0"]
    two = assign_uniform(kept, partitions)
    assert all(three[name] < two[name] for name in two)


def test_one_with_many_topics_leaves_the_rest_to_others() -> None:
    given = assign_uniform(readers(frozenset({A, B}), frozenset({B})), {A: 4, B: 4})
    assert (len(given["m0"]), len(given["m1"])) == (4, 4)
    assert indexes(given["m1"], B) == [0, 1, 2, 3]


def test_ranges_give_the_same_indexes_of_every_topic() -> None:
    """C4: range puts partitions that are joined together."""
    given = assign_ranges(readers(*[frozenset({A, B})] * 3), {A: 7, B: 7})
    assert [indexes(given[name], A) for name in sorted(given)] == [[0, 1, 2], [3, 4], [5, 6]]
    assert all(indexes(given[name], A) == indexes(given[name], B) for name in given)


def test_ranges_put_static_members_first_in_the_order_of_their_names() -> None:
    topics = frozenset({A})
    given = assign_ranges(
        {"a": Reader(topics), "z": Reader(topics, "i1"), "y": Reader(topics, "i2")}, {A: 3}
    )
    assert [indexes(given[name], A) for name in ("z", "y", "a")] == [[0], [1], [2]]


def test_nobody_gets_nothing() -> None:
    assert all(assign({}, {A: 3}) == {} for assign in ASSIGNORS.values())
