"""Where the replicas of partitions should be."""

from collections import Counter
from random import Random

import pytest

from chordmq.cluster.ring.placement import Placement

CHANCE = Random(11)
TOPICS = [CHANCE.randbytes(16) for _ in range(20)]
PARTITIONS = 50


def brokers(*numbers: int, seed: int = 0) -> dict[int, str]:
    chance = Random(seed)
    uuids = [f"{chance.getrandbits(128):032x}" for _ in range(max(numbers) + 1)]
    return {number: uuids[number] for number in numbers}


def test_replicas_are_distinct_brokers_and_no_more_than_there_are() -> None:
    placement = Placement("c", brokers(1, 2, 3))
    for topic in TOPICS:
        assert sorted(placement.replicas(topic, 0, 3)) == [1, 2, 3]
        assert sorted(placement.replicas(topic, 0, 5)) == [1, 2, 3]
        assert len(set(placement.replicas(topic, 0, 2))) == 2
    assert Placement("c", {}).replicas(TOPICS[0], 0, 3) == ()
    assert Placement("c", {}).proposal(TOPICS[0], 4, 3) == []


@pytest.mark.parametrize("factor", [1, 2, 3])
@pytest.mark.parametrize("seed", range(5))
def test_a_fourth_broker_takes_its_share_and_nothing_else_moves(factor: int, seed: int) -> None:
    """A8: joining a fourth node moves at most 1.3 times the ideal share."""
    before = Placement("c", brokers(1, 2, 3, seed=seed))
    after = Placement("c", brokers(1, 2, 3, 4, seed=seed))
    moved = 0
    for topic in TOPICS:
        for index in range(PARTITIONS):
            old = set(before.replicas(topic, index, factor))
            new = set(after.replicas(topic, index, factor))
            assert new - old <= {4}, "only the new broker gets anything"
            moved += len(new - old)
    ideal = len(TOPICS) * PARTITIONS * factor / 4
    assert 0.7 * ideal <= moved <= 1.3 * ideal


def test_a_broker_that_leaves_gives_only_its_own_away() -> None:
    before = Placement("c", brokers(1, 2, 3, 4, 5))
    after = Placement("c", brokers(1, 2, 4, 5))
    for topic in TOPICS:
        old, new = before.replicas(topic, 0, 3), after.replicas(topic, 0, 3)
        assert set(old) - set(new) <= {3}


def test_replicas_are_in_different_racks_while_there_are_enough() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}
    placement = Placement("c", brokers(*racks), racks)
    for topic in TOPICS:
        for index in range(PARTITIONS):
            assert len({racks[b] for b in placement.replicas(topic, index, 3)}) == 3
            four = placement.replicas(topic, index, 4)
            assert len(set(four)) == 4
            assert len({racks[b] for b in four}) == 3


def test_brokers_without_a_rack_stand_each_for_themselves() -> None:
    placement = Placement("c", brokers(1, 2, 3), {1: "", 2: "", 3: "a"})
    assert sorted(placement.replicas(TOPICS[0], 0, 3)) == [1, 2, 3]


def test_the_leaders_of_a_topic_are_spread_evenly() -> None:
    placement = Placement("c", brokers(1, 2, 3))
    for topic in TOPICS:
        proposed = placement.proposal(topic, 12, 3)
        assert Counter(replicas[0] for replicas in proposed) == {1: 4, 2: 4, 3: 4}
        assert [set(replicas) for replicas in proposed] == [{1, 2, 3}] * 12


def test_observers_come_after_the_replicas() -> None:
    placement = Placement("c", brokers(1, 2, 3, 4, 5, 6))
    replicas = placement.replicas(TOPICS[0], 0, 3)
    observers = placement.observers(TOPICS[0], 0, replicas, 2)
    assert len({*replicas, *observers}) == 5
    assert placement.replicas(TOPICS[0], 0, 5) == replicas + observers
    assert len(placement.observers(TOPICS[0], 0, replicas, 9)) == 3


def test_the_shares_of_brokers_are_even() -> None:
    placement = Placement("c", brokers(*range(1, 11)))
    held = Counter(
        broker
        for topic in TOPICS
        for index in range(PARTITIONS)
        for broker in placement.replicas(topic, index, 3)
    )
    ideal = len(TOPICS) * PARTITIONS * 3 / 10
    assert max(held.values()) <= 1.3 * ideal
    assert min(held.values()) >= 0.7 * ideal
