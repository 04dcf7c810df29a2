"""A share group's members: who may come, who is fenced, and who reads what."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.broker.groups.share_groups import Beat, Beaten, Place, ShareGroup, TopicFacts, assign
from chordmq.errors import FencedMemberEpoch, GroupFull, InvalidRequest, UnknownMember

T, U = b"t" * 16, b"u" * 16
CATALOGUE = {"t": TopicFacts(T, 2), "u": TopicFacts(U, 1)}
TOPICS = frozenset({"t"})


def beat(
    group: ShareGroup,
    member_id: str,
    epoch: int = 0,
    topics: frozenset[str] | None = None,
    *,
    size_max: int = 10,
    catalogue: dict[str, TopicFacts] | None = None,
) -> Beaten:
    if epoch == 0 and topics is None:
        topics = TOPICS
    request = Beat(member_id=member_id, epoch=epoch, topics=topics)
    facts = CATALOGUE if catalogue is None else catalogue
    return group.beat(request, facts.get, size_max)


def test_the_first_member_reads_everything() -> None:
    group = ShareGroup("g")
    assert beat(group, "a") == Beaten(1, frozenset({(T, 0), (T, 1)}))
    assert group.state == "Stable"
    assert group.partitions == [("t", 0), ("t", 1)]


def test_an_assignment_is_told_once_unless_asked_for() -> None:
    group = ShareGroup("g")
    told = beat(group, "a")
    assert beat(group, "a", 1) == Beaten(1, None)
    assert beat(group, "a", 1, TOPICS) == told


def test_members_share_the_partitions_and_learn_it_with_their_next_heartbeat() -> None:
    """A3, C4: several consumers share a topic without giving anything back first."""
    group = ShareGroup("g")
    beat(group, "a")
    second = beat(group, "b")
    first = beat(group, "a", 1)
    assert (first.epoch, second.epoch) == (2, 2)
    assert (first.assignment, second.assignment) == (frozenset({(T, 0)}), frozenset({(T, 1)}))


def test_more_members_than_partitions_read_together() -> None:
    group = ShareGroup("g")
    for name in "abc":
        beat(group, name)
    given = [group.members[name].assignment for name in "abc"]
    assert all(len(assignment) == 1 for assignment in given)
    assert frozenset().union(*given) == {(T, 0), (T, 1)}


def test_a_member_may_repeat_the_epoch_before_its_newest() -> None:
    group = ShareGroup("g")
    beat(group, "a")
    beat(group, "b")
    assert beat(group, "a", 1).epoch == 2
    assert beat(group, "a", 1).epoch == 2
    assert beat(group, "a", 2).epoch == 2


@pytest.mark.parametrize("epoch", [3, 7])
def test_a_member_with_a_strange_epoch_is_fenced(epoch: int) -> None:
    group = ShareGroup("g")
    beat(group, "a")
    with pytest.raises(FencedMemberEpoch):
        beat(group, "a", epoch)


def test_a_stranger_must_join_first() -> None:
    with pytest.raises(UnknownMember):
        beat(ShareGroup("g"), "a", 5)


def test_a_member_joins_with_its_topics() -> None:
    with pytest.raises(InvalidRequest):
        beat(ShareGroup("g"), "a", 0, frozenset())


def test_a_full_group_takes_no_more() -> None:
    group = ShareGroup("g")
    beat(group, "a", size_max=1)
    beat(group, "a", size_max=1)
    with pytest.raises(GroupFull):
        beat(group, "b", size_max=1)


def test_a_changed_subscription_changes_the_assignment() -> None:
    group = ShareGroup("g")
    beat(group, "a")
    assert beat(group, "a", 1, frozenset({"u", "absent"})) == Beaten(2, frozenset({(U, 0)}))


def test_topics_that_come_grow_or_go_change_the_assignment() -> None:
    group = ShareGroup("g")
    assert beat(group, "a", catalogue={}).assignment == frozenset()
    assert beat(group, "a", 1, catalogue={"t": TopicFacts(T, 1)}) == Beaten(2, frozenset({(T, 0)}))
    grown = beat(group, "a", 2, catalogue={"t": TopicFacts(T, 3)})
    assert grown == Beaten(3, frozenset({(T, 0), (T, 1), (T, 2)}))
    assert beat(group, "a", 3, catalogue={}) == Beaten(4, frozenset())


def test_who_leaves_makes_room() -> None:
    group = ShareGroup("g")
    beat(group, "a", topics=frozenset({"t", "u"}))
    beat(group, "b")
    group.remove("a")
    assert group.partitions == [("t", 0), ("t", 1)]
    assert beat(group, "b", 2).assignment == frozenset({(T, 0), (T, 1)})
    with pytest.raises(UnknownMember):
        group.remove("a")
    group.remove("b")
    assert (group.state, group.partitions) == ("Empty", [])


TOPIC_IDS = [bytes([n]) * 16 for n in range(3)]
PLACES = st.lists(st.tuples(st.sampled_from(TOPIC_IDS), st.integers(0, 9)), unique=True)
MEMBERS = st.dictionaries(st.sampled_from("abcdefgh"), st.frozensets(st.sampled_from(TOPIC_IDS)))


@given(members=MEMBERS, places=PLACES)
def test_every_partition_has_a_reader_and_every_reader_a_partition(
    members: dict[str, frozenset[bytes]], places: list[Place]
) -> None:
    given = assign(members, places, dict.fromkeys(members, frozenset()))
    for member_id, topics in members.items():
        assert all(place[0] in topics for place in given[member_id])
        assert bool(given[member_id]) == any(place[0] in topics for place in places)
    for place in places:
        is_wanted = any(place[0] in topics for topics in members.values())
        assert is_wanted == any(place in assignment for assignment in given.values())


@given(names=st.sets(st.sampled_from("abcdefgh"), min_size=1), places=PLACES)
def test_members_with_the_same_topics_get_equally_many(
    names: set[str], places: list[Place]
) -> None:
    members = dict.fromkeys(names, frozenset(TOPIC_IDS))
    given = assign(members, places, dict.fromkeys(members, frozenset()))
    sizes = [len(assignment) for assignment in given.values()]
    readers = [sum(place in one for one in given.values()) for place in places]
    assert max(sizes) - min(sizes) <= 1
    assert not readers or max(readers) - min(readers) <= 1


@given(names=st.sets(st.sampled_from("abcdefgh"), min_size=1), places=PLACES)
def test_nothing_moves_when_nothing_changes(names: set[str], places: list[Place]) -> None:
    members = dict.fromkeys(names, frozenset(TOPIC_IDS))
    given = assign(members, places, dict.fromkeys(members, frozenset()))
    assert assign(members, places, given) == given
