"""Every partition goes to exactly one member, by Kafka's rules."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.client.assignors import ASSIGNORS, assign_range, assign_round_robin

TOPICS = ["a", "b", "c"]


def test_range_gives_neighbours_of_each_topic_and_the_rest_to_the_first() -> None:
    members = {"m2": ["a", "b"], "m1": ["a", "b"]}
    assert assign_range(members, {"a": 3, "b": 2}) == {
        "m1": [("a", 0), ("a", 1), ("b", 0)],
        "m2": [("a", 2), ("b", 1)],
    }


def test_round_robin_deals_partitions_of_all_topics_one_by_one() -> None:
    members = {"m2": ["a", "b"], "m1": ["a", "b"]}
    assert assign_round_robin(members, {"a": 3, "b": 2}) == {
        "m1": [("a", 0), ("a", 2), ("b", 1)],
        "m2": [("a", 1), ("b", 0)],
    }


def test_a_member_gets_nothing_of_a_topic_it_does_not_read() -> None:
    members = {"m1": ["a"], "m2": ["b"]}
    assert assign_round_robin(members, {"a": 2, "b": 1}) == {
        "m1": [("a", 0), ("a", 1)],
        "m2": [("b", 0)],
    }


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@given(
    members=st.dictionaries(
        st.sampled_from(["m1", "m2", "m3", "m4"]),
        st.lists(st.sampled_from(TOPICS), unique=True),
        min_size=1,
    ),
    partitions=st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 9)),
)
def test_each_partition_goes_to_exactly_one_member_that_wants_it(
    name: str, members: dict[str, list[str]], partitions: dict[str, int]
) -> None:
    assignment = ASSIGNORS[name](members, partitions)
    wanted = {topic for topics in members.values() for topic in topics}
    expected = {(topic, n) for topic in wanted for n in range(partitions.get(topic, 0))}
    given_out = Counter(pair for pairs in assignment.values() for pair in pairs)
    assert set(given_out) == expected
    assert not expected or max(given_out.values()) == 1
    assert all(topic in members[m] for m, pairs in assignment.items() for topic, _ in pairs)
