"""The machine of one group of the consumer protocol, step by step."""

from typing import Any

import pytest

from chordmq.broker.groups.assignors import NOTHING, Assignment
from chordmq.broker.groups.consumer_groups import Beat, Beaten, ConsumerGroup, ConsumerState
from chordmq.broker.groups.membership import Identity, Leaver
from chordmq.broker.groups.topic_view import TopicFacts, TopicView
from chordmq.broker.settings import BrokerSettings
from chordmq.errors import (
    FencedInstance,
    FencedMemberEpoch,
    GroupFull,
    GroupNotEmpty,
    InvalidPattern,
    StaleMemberEpoch,
    UnknownMember,
    UnreleasedInstance,
    UnsupportedAssignor,
)

SESSION_MS, REBALANCE_MS = 10_000, 30_000
T = TopicFacts("t", b"t" * 16, 4)
U = TopicFacts("u", b"u" * 16, 2)
ALL = frozenset((T.id, index) for index in range(4))


class Driver:
    """A group with its topics and its clock; logs at once what is to be logged."""

    def __init__(self, **settings: Any) -> None:
        self.group = ConsumerGroup("g", BrokerSettings(**settings), lambda: SESSION_MS)
        self.view = TopicView([T])
        self.now_ms = 0

    def join(self, member_id: str, *topics: str, **changes: Any) -> Beaten:
        fields: dict[str, Any] = {
            "rebalance_timeout_ms": REBALANCE_MS,
            "topics": frozenset(topics or ("t",)),
            "owned": NOTHING,
            **changes,
        }
        return self.beat(member_id, 0, **fields)

    def beat(self, member_id: str, epoch: int, **changes: Any) -> Beaten:
        beat = Beat(member_id=member_id, epoch=epoch, **changes)
        beaten = self.group.heartbeat(beat, self.view, self.now_ms)
        self.group.confirm(self.group.take_outbox())
        return beaten

    def advance(self, ms: int) -> None:
        self.now_ms += ms
        self.group.tick(self.now_ms)
        self.group.confirm(self.group.take_outbox())

    def state(self) -> ConsumerState:
        return self.group.state

    def held(self, member_id: str) -> Assignment:
        return self.group.image.holding(member_id).assigned


@pytest.fixture
def driver() -> Driver:
    return Driver()


def test_a_member_alone_has_everything_at_once(driver: Driver) -> None:
    """C4: one heartbeat joins, assigns and tells."""
    assert driver.state() is ConsumerState.EMPTY
    assert driver.join("a") == Beaten("a", 1, ALL)
    assert driver.state() is ConsumerState.STABLE
    assert driver.beat("a", 1) == Beaten("a", 1)
    assert not driver.group.take_outbox(), "a heartbeat that changes nothing is not logged"


def test_topics_that_come_grow_and_go_lead_to_new_assignments(driver: Driver) -> None:
    """C4: members learn of it with their next heartbeat."""
    driver.join("a", "t", "u")
    driver.view = TopicView([T, U])
    assert driver.beat("a", 1).assignment == ALL | {(U.id, 0), (U.id, 1)}
    driver.view = TopicView([T._replace(partitions=5), U])
    assert len(driver.beat("a", 2).assignment or ()) == 7
    driver.view = TopicView([U])
    beaten = driver.beat("a", 3)
    assert (beaten.epoch, beaten.assignment) == (3, frozenset({(U.id, 0), (U.id, 1)}))
    assert driver.beat("a", 3, owned=beaten.assignment).epoch == 4


def test_topics_that_nobody_reads_change_nothing(driver: Driver) -> None:
    driver.join("a")
    driver.view = TopicView([T, U])
    assert driver.beat("a", 1) == Beaten("a", 1)


def test_a_pattern_is_resolved_here_and_can_be_replaced_by_names(driver: Driver) -> None:
    """C4: server-side regular expressions."""
    driver.view = TopicView([T, U])
    beaten = driver.join("a", topics=frozenset(), pattern="[u-z]")
    assert beaten.assignment == frozenset({(U.id, 0), (U.id, 1)})
    assert driver.group.subscribes("u")
    assert not driver.group.subscribes("t")
    with pytest.raises(InvalidPattern):
        driver.beat("a", 1, pattern="(")
    beaten = driver.beat("a", 1, pattern="", topics=frozenset({"t"}), owned=NOTHING)
    assert beaten.assignment == ALL


def test_a_pattern_matches_only_what_its_member_may_know_of(driver: Driver) -> None:
    """C9: each member has its own eyes; changed permissions count at the next heartbeat."""
    driver.view = TopicView([T, U])
    allowed = {"t"}
    every: dict[str, Any] = {"topics": frozenset(), "pattern": ".*"}
    sees: dict[str, Any] = {"sees": allowed.__contains__}
    assert driver.join("a", **every, **sees).assignment == ALL
    assert not driver.group.subscribes("u")
    driver.join("b", **every, sees={"u"}.__contains__)
    assert driver.held("b") == {(U.id, 0), (U.id, 1)}
    assert driver.held("a") == ALL
    allowed.add("u")
    driver.view = TopicView([T, U])  # a change of ACLs makes a new one
    driver.beat("a", 1, **sees)
    assert driver.group.image.epoch == 3, "the same topics, but other readers: all is planned anew"


def test_a_member_not_heard_since_a_restart_keeps_what_its_pattern_gave_it(driver: Driver) -> None:
    """C9: until it speaks nobody knows who it is, and so what it may see."""
    driver.join("a", topics=frozenset(), pattern=".*", sees={"t"}.__contains__)
    again = Driver()
    for record in driver.group.image.records():
        again.group.replay(record)
    again.group.wake(0)
    again.view = TopicView([T, U])
    again.join("b", "u")
    assert again.held("a") == again.group.image.target("a") == ALL
    assert again.held("b") == {(U.id, 0), (U.id, 1)}


def test_most_members_choose_the_assignor(driver: Driver) -> None:
    assert driver.group.assignor == "uniform"
    driver.join("a", assignor="range")
    assert driver.group.assignor == "range"
    driver.join("b", assignor="uniform")
    driver.join("c", assignor="uniform")
    assert driver.group.assignor == "uniform"
    with pytest.raises(UnsupportedAssignor):
        driver.join("d", assignor="best")


def test_a_silent_member_is_out_after_its_session(driver: Driver) -> None:
    """C4: session time-outs."""
    driver.join("a")
    driver.join("b")
    driver.advance(SESSION_MS - 1)
    driver.beat("a", 1)
    driver.advance(1)
    assert set(driver.group.image.members) == {"a"}
    assert driver.state() is ConsumerState.ASSIGNING
    assert len(driver.held("a")) == 2, "the rest follows with its next heartbeats"
    with pytest.raises(UnknownMember):
        driver.beat("b", 2)


def test_a_member_that_does_not_let_go_is_out_after_its_rebalance_timeout(driver: Driver) -> None:
    """C4: one that hangs cannot hold the others up for ever."""
    driver.join("a")
    driver.join("b")
    for _ in range(REBALANCE_MS // 5_000):
        assert set(driver.group.image.members) == {"a", "b"}
        driver.beat("a", 1, owned=ALL)
        driver.beat("b", 2)
        driver.advance(5_000)
    assert set(driver.group.image.members) == {"b"}
    assert driver.beat("b", 2).assignment == ALL


def test_an_answer_that_was_lost_is_given_again(driver: Driver) -> None:
    driver.join("a")
    driver.view = TopicView([T, U])
    driver.beat("a", 1, topics=frozenset({"t", "u"}))
    again = driver.beat("a", 1, owned=ALL, topics=frozenset({"t", "u"}), rebalance_timeout_ms=1)
    assert (again.epoch, len(again.assignment or ())) == (2, 6)
    with pytest.raises(FencedMemberEpoch):
        driver.beat("a", 1, owned=ALL | {(b"x" * 16, 0)})
    assert driver.join("a", "t", "u").epoch == 2, "joining again is always possible"


def test_a_static_member_is_replaced_only_after_it_has_left(driver: Driver) -> None:
    """C4: static membership."""
    driver.join("a", instance_id="i")
    driver.join("other")
    with pytest.raises(UnreleasedInstance):
        driver.join("b", instance_id="i")
    target = driver.group.image.target("a")
    assert driver.beat("a", -2, instance_id="i") == Beaten("a", -2)
    epoch = driver.group.image.epoch
    assert driver.join("b", instance_id="i").assignment == target
    assert driver.group.image.epoch == epoch, "nobody else hears of it"
    with pytest.raises(FencedInstance):
        driver.beat("a", 1, instance_id="i")
    driver.beat("b", -2, instance_id="i")
    driver.beat("other", 2)
    driver.advance(SESSION_MS - 1)
    driver.beat("other", 2)
    driver.advance(1)
    assert set(driver.group.image.members) == {"other"}, "it has not come back in time"


def test_members_are_removed_by_id_or_instance(driver: Driver) -> None:
    driver.join("a", instance_id="i")
    driver.join("b")
    results = driver.group.remove(
        [Leaver(instance_id="i"), Leaver(member_id="b"), Leaver(member_id="b")]
    )
    assert results[:2] == [None, None]
    assert isinstance(results[2], UnknownMember)
    assert driver.group.is_empty


def test_commits_and_fetches_are_checked_by_epoch(driver: Driver) -> None:
    """C12: STALE_MEMBER_EPOCH."""
    driver.group.check_commit(Identity(), 0)
    driver.join("a")
    driver.group.check_commit(Identity(member_id="a", generation=1), 0)
    driver.group.check_fetch("a", 1)
    driver.group.check_fetch(None, -1)
    with pytest.raises(StaleMemberEpoch):
        driver.group.check_commit(Identity(member_id="a", generation=2), 0)
    with pytest.raises(StaleMemberEpoch):
        driver.group.check_fetch("a", 0)
    with pytest.raises(UnknownMember):
        driver.group.check_commit(Identity(), 0)


def test_a_group_with_members_is_not_deleted_and_one_without_leaves_nothing(
    driver: Driver,
) -> None:
    driver.join("a")
    with pytest.raises(GroupNotEmpty):
        driver.group.delete()
    driver.beat("a", -1)
    driver.group.delete()
    assert not driver.group.image.records()
    assert driver.join("a").epoch == 1


def test_no_more_members_than_allowed() -> None:
    driver = Driver(group_consumer_max_size=1)
    driver.join("a")
    with pytest.raises(GroupFull):
        driver.join("b")
    assert driver.join("a").epoch == 1


def test_what_the_log_refuses_did_not_happen(driver: Driver) -> None:
    """C4: memory goes back to what the log holds, and everybody has a session to come back."""
    driver.join("a")
    driver.group.heartbeat(
        Beat(member_id="b", epoch=0, topics=frozenset({"t"}), owned=NOTHING), driver.view, 0
    )
    driver.group.lose(driver.now_ms)
    assert set(driver.group.image.members) == {"a"}
    assert driver.beat("a", 1) == Beaten("a", 1)
    assert driver.group.next_deadline_ms() == SESSION_MS
