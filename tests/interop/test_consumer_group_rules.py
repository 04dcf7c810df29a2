"""The rules of the consumer protocol on the wire; the same tests pass against Apache Kafka 4.3."""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.interop.conftest import CreateTopic
from tests.wire import FIND_COORDINATOR, OFFSET_COMMIT, OFFSET_FETCH, Wire

JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP = 11, 12, 13, 14
DESCRIBE_GROUPS, LIST_GROUPS, DELETE_GROUPS = 15, 16, 42
CONSUMER_HEARTBEAT, CONSUMER_DESCRIBE = 68, 69
PARTITIONS = 4
EVERY_PARTITION = list(range(PARTITIONS))
JOIN, LEAVE, LEAVE_FOR_NOW = 0, -1, -2
SUBSCRIPTION_VERSION = b"\x00\x00"


@dataclass
class Member:
    """What one member knows of itself."""

    member_id: str
    epoch: int = JOIN
    owned: set[int] = field(default_factory=set)
    instance_id: str | None = None


@dataclass
class Group:
    """One group with a topic of the same name, asked over one connection."""

    wire: Wire
    topic: str
    topic_id: uuid.UUID

    def beat(self, member_id: str, epoch: int, **changes: Any) -> Any:
        fields: dict[str, Any] = {
            "group_id": self.topic,
            "member_id": member_id,
            "member_epoch": epoch,
            "rebalance_timeout": -1,
        }
        return self.wire.call(CONSUMER_HEARTBEAT, 1, **(fields | changes))

    def join(self, member: Member, **changes: Any) -> Any:
        fields: dict[str, Any] = {
            "instance_id": member.instance_id,
            "rebalance_timeout": 30_000,
            "subscribed_topic_names": [self.topic],
            "topic_partitions": [],
        }
        answer = self.beat(member.member_id, JOIN, **(fields | changes))
        if answer.error_code is ErrorCode.none:
            member.epoch, member.owned = answer.member_epoch, self.assigned(answer) or set()
        return answer

    def follow(self, member: Member) -> None:
        """Send a heartbeat with what the member has, and take over what it is told."""
        answer = self.beat(
            member.member_id, member.epoch,
            instance_id=member.instance_id, topic_partitions=self.places(member.owned),
        )  # fmt: skip
        assert answer.error_code is ErrorCode.none, answer
        member.epoch = answer.member_epoch
        assigned = self.assigned(answer)
        if assigned is not None:
            member.owned = assigned

    def settle(self, *members: Member) -> None:
        """Let members follow until they share the topic, which Apache Kafka learns of late."""
        while True:
            for member in members:
                self.follow(member)
            owned = sorted(index for member in members for index in member.owned)
            if owned == EVERY_PARTITION and self.describe().group_state == "Stable":
                return

    def places(self, indexes: Iterable[int]) -> list[dict[str, Any]]:
        indexes = sorted(indexes)
        return [{"topic_id": self.topic_id, "partitions": indexes}] if indexes else []

    def assigned(self, answer: Any) -> set[int] | None:
        if answer.assignment is None:
            return None
        return {
            index
            for part in answer.assignment.topic_partitions
            if part.topic_id == self.topic_id
            for index in part.partitions
        }

    def commit(self, member_id: str, epoch: int, **changes: Any) -> ErrorCode:
        rows = [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]
        answer = self.wire.call(
            OFFSET_COMMIT, 9, group_id=self.topic, generation_id_or_member_epoch=epoch,
            member_id=member_id, topics=[{"name": self.topic, "partitions": rows}], **changes,
        )  # fmt: skip
        return ErrorCode(answer.topics[0].partitions[0].error_code)

    def fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        wanted = {"group_id": self.topic, "member_id": member_id, "member_epoch": epoch}
        answer = self.wire.call(OFFSET_FETCH, 9, groups=[{**wanted, "topics": None}])
        return ErrorCode(answer.groups[0].error_code)

    def describe(self) -> Any:
        (group,) = self.wire.call(CONSUMER_DESCRIBE, 1, group_ids=[self.topic]).groups
        return group


@pytest.fixture
def group(wire: Wire, create_topic: CreateTopic) -> Group:
    """Give a group with the name of its topic, and a coordinator that is ready for it."""
    topic = create_topic(partitions=PARTITIONS)
    group = Group(wire, topic, wire.topic_id(topic))
    wire.call(FIND_COORDINATOR, 4, key_type=0, coordinator_keys=[topic])
    while group.describe().error_code is not ErrorCode.group_id_not_found:
        pass  # Apache Kafka loads its coordinator at the first question
    return group


def test_a_heartbeat_says_what_its_epoch_calls_for(group: Group) -> None:
    """C12: incomplete heartbeats are refused, each with its reason."""
    refused = ErrorCode.invalid_request
    member = Member("m")
    assert group.join(Member("")).error_code is refused
    assert group.join(member, subscribed_topic_names=None).error_code is refused
    assert group.join(member, topic_partitions=None).error_code is refused
    assert group.join(member, topic_partitions=group.places([0])).error_code is refused
    assert group.join(member, instance_id="").error_code is refused
    assert group.join(member, rack_id="").error_code is refused
    assert group.join(member, rebalance_timeout=-1).error_code is refused
    assert group.beat("m", -3).error_code is refused
    assert group.beat("m", LEAVE_FOR_NOW).error_code is refused
    answer = group.join(member, server_assignor="best")
    assert answer.error_code is ErrorCode.unsupported_assignor
    assert answer.error_message == (
        "ServerAssignor best is not supported. Supported assignors: uniform, range."
    )
    answer = group.join(member, subscribed_topic_names=None, subscribed_topic_regex="(a")
    assert answer.error_code is ErrorCode.invalid_regular_expression
    assert group.describe().error_code is ErrorCode.group_id_not_found


def test_members_give_up_before_others_take_over(group: Group) -> None:
    """C4: the second member gets nothing until the first has let go."""
    first, second = Member("first"), Member("second")
    answer = group.join(first)
    assert answer.member_id == "first"
    group.settle(first)
    assert first.owned == set(range(PARTITIONS))
    group.join(second)
    assert second.owned == set()
    assert group.describe().group_state in ("Assigning", "Reconciling")
    before = set(first.owned)
    told = None
    while told is None:
        answer = group.beat("first", first.epoch)
        assert answer.member_epoch == first.epoch
        told = group.assigned(answer)
    assert len(told) == PARTITIONS // 2
    assert group.assigned(group.beat("first", first.epoch)) is None
    group.follow(second)
    assert second.owned == set(), "the first has not said yet that it let go"
    first.owned = told
    group.settle(first, second)
    assert first.epoch == second.epoch
    assert second.owned == before - first.owned


def test_epochs_fence_members(group: Group) -> None:
    """C4, C12: an epoch ahead, behind or of nobody; one step behind may be a lost answer."""
    member = Member("m")
    group.join(member)
    group.settle(member)
    epoch = member.epoch
    assert group.beat("m", epoch + 1).error_code is ErrorCode.fenced_member_epoch
    assert group.beat("nobody", epoch).error_code is ErrorCode.unknown_member_id
    names = [group.topic, f"{group.topic}-other"]
    group.beat("m", epoch, subscribed_topic_names=names)
    while (answer := group.beat("m", epoch, topic_partitions=group.places(member.owned))) and (
        answer.member_epoch == epoch
    ):
        pass
    second = answer.member_epoch
    again = group.beat("m", epoch, topic_partitions=group.places(member.owned))
    assert (again.error_code, again.member_epoch) == (ErrorCode.none, second)
    assert group.beat("m", epoch).error_code is ErrorCode.fenced_member_epoch
    member.epoch = second
    group.beat("m", second, subscribed_topic_names=[group.topic])
    while member.epoch == second:
        group.follow(member)
    answer = group.beat("m", epoch, topic_partitions=group.places(member.owned))
    assert answer.error_code is ErrorCode.fenced_member_epoch
    assert group.join(member).member_epoch == member.epoch > second
    assert member.owned == set(range(PARTITIONS))


def test_commits_need_the_epoch_of_the_member(group: Group) -> None:
    """C4, C12: offsets of members, of outsiders, and of those who were members."""
    member = Member("m")
    group.join(member)
    assert group.commit("m", member.epoch) is ErrorCode.none
    assert group.commit("m", member.epoch + 1) is ErrorCode.stale_member_epoch
    assert group.commit("nobody", member.epoch) is ErrorCode.unknown_member_id
    assert group.commit("", -1) is ErrorCode.unknown_member_id
    assert group.fetch("m", member.epoch) is ErrorCode.none
    assert group.fetch("m", member.epoch + 1) is ErrorCode.stale_member_epoch
    assert group.fetch("nobody", 1) is ErrorCode.unknown_member_id
    assert group.fetch(None, -1) is ErrorCode.none
    answer = group.beat("m", LEAVE)
    assert (answer.error_code, answer.member_epoch) == (ErrorCode.none, LEAVE)
    assert group.commit("", -1) is ErrorCode.none
    assert group.commit("m", member.epoch) is ErrorCode.unknown_member_id


def test_a_static_member_leaves_for_now_and_keeps_its_partitions(group: Group) -> None:
    """C4: an instance id belongs to one process until that has left."""
    first = Member("first", instance_id="i")
    other = Member("other")
    group.join(first)
    group.join(other)
    group.settle(first, other)
    kept = set(first.owned)
    second = Member("second", instance_id="i")
    assert group.join(second).error_code is ErrorCode.unreleased_instance_id
    answer = group.beat("first", LEAVE_FOR_NOW, instance_id="i")
    assert (answer.error_code, answer.member_epoch) == (ErrorCode.none, LEAVE_FOR_NOW)
    assert group.join(second).error_code is ErrorCode.none
    assert (second.owned, second.epoch) == (kept, first.epoch)
    answer = group.beat("first", first.epoch, instance_id="i")
    assert answer.error_code is ErrorCode.fenced_instance_id
    answer = group.beat("x", 1, instance_id="unknown")
    assert answer.error_code is ErrorCode.unknown_member_id
    (left,) = group.wire.call(
        LEAVE_GROUP, 5, group_id=group.topic,
        members=[{"member_id": "", "group_instance_id": "i"}],
    ).members  # fmt: skip
    assert left.error_code is ErrorCode.none
    group.settle(other)
    assert other.owned == set(range(PARTITIONS))


def test_a_group_is_listed_described_and_deleted(group: Group) -> None:
    """C2, C4: what administrators see."""
    member = Member("m", instance_id="i")
    group.join(member, server_assignor="range", rack_id="r")
    group.settle(member)
    described = group.describe()
    assert (described.group_state, described.assignor_name) == ("Stable", "range")
    assert described.group_epoch == described.assignment_epoch == member.epoch
    (row,) = described.members
    assert (row.member_id, row.instance_id, row.rack_id) == ("m", "i", "r")
    assert (row.member_epoch, row.member_type) == (member.epoch, 1)
    assert list(row.subscribed_topic_names) == [group.topic]
    (held,), (target,) = row.assignment.topic_partitions, row.target_assignment.topic_partitions
    assert held == target
    assert (held.topic_name, sorted(held.partitions)) == (group.topic, list(range(PARTITIONS)))
    listed = group.wire.call(LIST_GROUPS, 5, states_filter=[], types_filter=["consumer"]).groups
    (found,) = (entry for entry in listed if entry.group_id == group.topic)
    assert (found.protocol_type, found.group_state) == ("consumer", "Stable")
    assert found.group_type.lower() == "consumer"
    listed = group.wire.call(LIST_GROUPS, 5, states_filter=[], types_filter=["classic"]).groups
    assert group.topic not in {entry.group_id for entry in listed}
    (old,) = group.wire.call(DESCRIBE_GROUPS, 6, groups=[group.topic]).groups
    assert (old.error_code, old.group_state) == (ErrorCode.group_id_not_found, "Dead")
    assert old.error_message == f"Group {group.topic} is not a classic group."
    assert delete(group) is ErrorCode.non_empty_group
    group.beat("m", LEAVE, instance_id="i")
    assert group.describe().group_state == "Empty"
    assert delete(group) is ErrorCode.none
    assert group.describe().error_code is ErrorCode.group_id_not_found


def delete(group: Group) -> ErrorCode:
    (row,) = group.wire.call(DELETE_GROUPS, 2, groups_names=[group.topic]).results
    return ErrorCode(row.error_code)


def subscription(topic: str) -> bytes:
    name = topic.encode()
    topics = (1).to_bytes(4, "big") + len(name).to_bytes(2, "big") + name
    return SUBSCRIPTION_VERSION + topics + (-1).to_bytes(4, "big", signed=True)


def classic_join(group: Group, member_id: str, **changes: Any) -> Any:
    fields: dict[str, Any] = {
        "group_id": group.topic,
        "member_id": member_id,
        "session_timeout": 30_000,
        "rebalance_timeout": 30_000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": subscription(group.topic)}],
    }
    return group.wire.call(JOIN_GROUP, 9, **(fields | changes))


def classic_sync(group: Group, joined: Any, assignment: bytes = b"") -> Any:
    return group.wire.call(
        SYNC_GROUP, 5, group_id=group.topic, generation_id=joined.generation_id,
        member_id=joined.member_id, protocol_type="consumer", protocol_name="range",
        assignments=[{"member_id": joined.member_id, "assignment": assignment}],
    )  # fmt: skip


def classic_beat(group: Group, joined: Any) -> ErrorCode:
    answer = group.wire.call(
        HEARTBEAT, 4, group_id=group.topic, generation_id=joined.generation_id,
        member_id=joined.member_id,
    )  # fmt: skip
    return ErrorCode(answer.error_code)


def assignment_of(group: Group, indexes: range) -> bytes:
    name = group.topic.encode()
    partitions = b"".join(index.to_bytes(4, "big") for index in indexes)
    head = (1).to_bytes(4, "big") + len(name).to_bytes(2, "big") + name
    count = len(indexes).to_bytes(4, "big")
    return SUBSCRIPTION_VERSION + head + count + partitions + (-1).to_bytes(4, "big", signed=True)


def test_a_classic_group_goes_over_when_a_new_member_comes_and_back(group: Group) -> None:
    """C4: online migration, step by step."""
    member_id = classic_join(group, "").member_id
    joined = classic_join(group, member_id)
    assert classic_sync(group, joined, assignment_of(group, range(PARTITIONS))).error_code == 0
    new = Member("new")
    answer = group.join(new)
    assert (answer.error_code, new.owned) == (ErrorCode.none, set())
    assert answer.member_epoch == joined.generation_id + 1
    described = group.describe()
    assert described.group_state == "Reconciling"
    assert {row.member_id: row.member_type for row in described.members} == {
        member_id: 0,
        "new": 1,
    }
    assert group.commit(member_id, joined.generation_id) is ErrorCode.none
    assert group.commit(member_id, joined.generation_id + 1) is ErrorCode.illegal_generation
    assert classic_beat(group, joined) is ErrorCode.rebalance_in_progress
    again = classic_join(group, member_id)
    assert (again.generation_id, again.leader) == (answer.member_epoch, "")
    synced = classic_sync(group, again)
    kept = assignment_of(group, range(PARTITIONS // 2))
    assert synced.assignment == kept
    group.follow(new)
    assert new.owned == set(range(PARTITIONS // 2, PARTITIONS))
    assert classic_beat(group, again) is ErrorCode.none
    refused = classic_join(group, "", protocol_type="connect")
    assert refused.error_code is ErrorCode.inconsistent_group_protocol
    group.beat("new", LEAVE)
    assert group.describe().error_code is ErrorCode.group_id_not_found
    (old,) = group.wire.call(DESCRIBE_GROUPS, 6, groups=[group.topic]).groups
    assert old.group_state == "PreparingRebalance"
    assert classic_beat(group, again) is ErrorCode.rebalance_in_progress
    last = classic_join(group, member_id)
    assert (last.generation_id, last.leader) == (again.generation_id + 1, member_id)


def test_a_group_that_does_not_read_topics_keeps_its_protocol(group: Group) -> None:
    """C4: only groups of consumers can go over, and an empty one always can."""
    other = {"protocol_type": "connect", "protocols": [{"name": "x", "metadata": b"\x00"}]}
    member_id = classic_join(group, "", **other).member_id
    joined = classic_join(group, member_id, **other)
    assert joined.error_code is ErrorCode.none
    assert group.join(Member("new")).error_code is ErrorCode.group_id_not_found
    group.wire.call(LEAVE_GROUP, 5, group_id=group.topic, members=[{"member_id": member_id}])
    new = Member("new")
    assert group.join(new).error_code is ErrorCode.none
    group.settle(new)
    group.beat("new", LEAVE)
    assert classic_join(group, "").error_code is ErrorCode.member_id_required
