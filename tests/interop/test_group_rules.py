"""The rules of consumer groups on the wire; the same tests pass against Apache Kafka."""

from dataclasses import dataclass
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.interop.conftest import CreateTopic
from tests.wire import Wire

OFFSET_COMMIT, FIND_COORDINATOR, JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP = (
    8,
    10,
    11,
    12,
    13,
    14,
)
DESCRIBE_GROUPS, DELETE_GROUPS = 15, 42


@dataclass
class Group:
    """One group, asked over one connection in the newest versions."""

    wire: Wire
    topic: str

    def join_fields(self, member_id: str) -> dict[str, Any]:
        return {
            "group_id": self.topic,
            "member_id": member_id,
            "session_timeout": 10_000,
            "rebalance_timeout": 10_000,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b"meta"}],
        }

    def join(self, member_id: str = "", version: int = 9, **changes: Any) -> Any:
        return self.wire.call(JOIN_GROUP, version, **(self.join_fields(member_id) | changes))

    def sync(self, joined: Any, assignment: bytes = b"", **changes: Any) -> Any:
        plan = [{"member_id": joined.member_id, "assignment": assignment}]
        return self.wire.call(
            SYNC_GROUP, 5, group_id=self.topic, generation_id=joined.generation_id,
            member_id=joined.member_id, protocol_type="consumer", protocol_name="range",
            assignments=plan, **changes,
        )  # fmt: skip

    def stable(self, **changes: Any) -> Any:
        joined = self.join(**changes)
        if joined.error_code is ErrorCode.member_id_required:
            joined = self.join(joined.member_id, **changes)
        assert joined.error_code is ErrorCode.none
        assert self.sync(joined, b"all", **changes).assignment == b"all"
        return joined

    def heartbeat(self, member_id: str, generation: int, instance: str | None = None) -> ErrorCode:
        answer = self.wire.call(
            HEARTBEAT, 4, group_id=self.topic, generation_id=generation,
            member_id=member_id, group_instance_id=instance,
        )  # fmt: skip
        return ErrorCode(answer.error_code)

    def commit(self, member_id: str = "", generation: int = -1, **changes: Any) -> ErrorCode:
        rows = [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]
        answer = self.wire.call(
            OFFSET_COMMIT, 8, group_id=self.topic, generation_id_or_member_epoch=generation,
            member_id=member_id, topics=[{"name": self.topic, "partitions": rows}], **changes,
        )  # fmt: skip
        return ErrorCode(answer.topics[0].partitions[0].error_code)

    def leave(self, *members: dict[str, Any]) -> list[ErrorCode]:
        answer = self.wire.call(LEAVE_GROUP, 5, group_id=self.topic, members=list(members))
        assert answer.error_code is ErrorCode.none
        return [ErrorCode(row.error_code) for row in answer.members]

    def state(self) -> str:
        (group,) = self.wire.call(DESCRIBE_GROUPS, 5, groups=[self.topic]).groups
        return str(group.group_state)


@pytest.fixture
def group(wire: Wire, create_topic: CreateTopic) -> Group:
    """Give a group with the name of its topic, and a coordinator that is ready for it."""
    group = Group(wire, create_topic())
    wire.call(FIND_COORDINATOR, 4, key_type=0, coordinator_keys=[group.topic])
    while group.heartbeat("nobody", 1) is not ErrorCode.unknown_member_id:
        pass  # Apache Kafka loads its coordinator at the first question
    return group


def test_a_group_that_nobody_knows_refuses_members_and_takes_outsiders(group: Group) -> None:
    """C12: the codes of an unknown group."""
    assert group.join("nobody").error_code is ErrorCode.unknown_member_id
    assert group.leave({"member_id": "nobody"}) == [ErrorCode.unknown_member_id]
    assert group.commit("nobody", 3) is ErrorCode.illegal_generation
    (deleted,) = group.wire.call(DELETE_GROUPS, 2, groups_names=[group.topic]).results
    assert deleted.error_code is ErrorCode.group_id_not_found
    (described,) = group.wire.call(DESCRIBE_GROUPS, 6, groups=[group.topic]).groups
    assert described.error_code is ErrorCode.group_id_not_found
    assert described.error_message == f"Group {group.topic} not found."
    assert group.state() == "Dead"
    assert group.commit() is ErrorCode.none
    assert group.state() == "Empty"


def test_a_member_goes_through_all_states(group: Group) -> None:
    """C1, C4: join, sync, commit and leave, with what each state allows."""
    given = group.join()
    assert given.error_code is ErrorCode.member_id_required
    member_id = given.member_id
    assert group.heartbeat(member_id, 0) is ErrorCode.unknown_member_id
    joined = group.join(member_id)
    assert (joined.error_code, joined.generation_id) == (ErrorCode.none, 1)
    assert joined.leader == joined.member_id == member_id
    assert group.state() == "CompletingRebalance"
    assert group.heartbeat(member_id, 1) is ErrorCode.none
    assert group.commit(member_id, 1) is ErrorCode.rebalance_in_progress
    assert group.join(member_id) == joined
    assert group.sync(joined, b"all").assignment == b"all"
    assert group.sync(joined, b"other").assignment == b"all"
    assert group.state() == "Stable"
    assert group.commit(member_id, 1) is ErrorCode.none
    assert group.commit(member_id, 2) is ErrorCode.illegal_generation
    assert group.commit() is ErrorCode.unknown_member_id
    assert group.heartbeat(member_id, 2) is ErrorCode.illegal_generation
    (deleted,) = group.wire.call(DELETE_GROUPS, 2, groups_names=[group.topic]).results
    assert deleted.error_code is ErrorCode.non_empty_group
    assert group.leave({"member_id": "nobody"}, {"member_id": member_id}) == [
        ErrorCode.unknown_member_id,
        ErrorCode.none,
    ]
    assert group.state() == "Empty"
    assert group.heartbeat(member_id, 1) is ErrorCode.unknown_member_id
    assert group.commit(member_id, 2) is ErrorCode.unknown_member_id
    assert group.commit() is ErrorCode.none


def test_a_member_that_does_not_fit_is_refused(group: Group) -> None:
    """C12: INCONSISTENT_GROUP_PROTOCOL and INVALID_SESSION_TIMEOUT."""
    joined = group.stable()
    other = [{"name": "other", "metadata": b""}]
    misfits: list[dict[str, Any]] = [
        {"protocols": other},
        {"protocols": []},
        {"protocol_type": "connect"},
    ]
    for changes in misfits:
        refused = group.join(**changes)
        assert refused.error_code is ErrorCode.inconsistent_group_protocol
    assert group.join(session_timeout=1).error_code is ErrorCode.invalid_session_timeout
    assert group.join(group_id="").error_code is ErrorCode.invalid_group_id
    wrong = group.wire.call(
        SYNC_GROUP, 5, group_id=group.topic, generation_id=1, member_id=joined.member_id,
        protocol_type="consumer", protocol_name=None, assignments=[],
    )  # fmt: skip
    assert wrong.error_code is ErrorCode.inconsistent_group_protocol


@pytest.mark.parametrize("version", [5, 8, 9])
def test_a_static_member_takes_over_from_its_former_process(group: Group, version: int) -> None:
    """C4: KIP-345, with the assignment skipped from version 9 on."""
    first = group.stable(group_instance_id="i")
    again = group.join(version=version, group_instance_id="i")
    assert (again.error_code, again.generation_id) == (ErrorCode.none, 1)
    assert again.member_id != first.member_id
    if version >= 9:
        assert again.skip_assignment
        assert again.leader == again.member_id
        assert len(again.members) == 1
    else:
        assert again.leader == first.member_id
        assert len(again.members) == 0
    assert group.sync(again, group_instance_id="i").assignment == b"all"
    fenced = ErrorCode.fenced_instance_id
    assert group.heartbeat(first.member_id, 1, "i") is fenced
    assert group.heartbeat(first.member_id, 1) is ErrorCode.unknown_member_id
    assert group.commit(first.member_id, 1, group_instance_id="i") is fenced
    assert group.join(first.member_id, group_instance_id="i").error_code is fenced
    former = {"member_id": first.member_id, "group_instance_id": "i"}
    assert group.leave(former, {"member_id": "", "group_instance_id": "i"}) == [
        fenced,
        ErrorCode.none,
    ]
    assert group.state() == "Empty"


def test_a_second_member_starts_a_rebalance_that_the_first_must_join(
    group: Group, address: tuple[str, int]
) -> None:
    """C4: REBALANCE_IN_PROGRESS by heartbeat, commits still taken, then two parts."""
    first = group.stable()
    with Wire(address) as wire:
        second = Group(wire, group.topic)
        given = second.join().member_id
        parked = wire.send(JOIN_GROUP, 9, **second.join_fields(given))
        while group.heartbeat(first.member_id, 1) is ErrorCode.none:
            pass
        assert group.heartbeat(first.member_id, 1) is ErrorCode.rebalance_in_progress
        assert group.commit(first.member_id, 1) is ErrorCode.none
        assert group.sync(first).error_code is ErrorCode.rebalance_in_progress
        again = group.join(first.member_id)
        joined = wire.receive(JOIN_GROUP, 9, parked)
        assert again.generation_id == joined.generation_id == 2
        assert (len(again.members), len(joined.members)) == (2, 0)
        assert joined.leader == first.member_id
        assert group.sync(again, b"mine").assignment == b"mine"
        assert second.sync(joined).assignment == b""
