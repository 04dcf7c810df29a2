"""The group APIs as a client sees them, in every version."""

import asyncio
from typing import Any

import pytest

from chordmq.broker.broker import Broker
from chordmq.broker.settings import BrokerSettings
from chordmq.codecs.kafka.messages.delete_groups import DeleteGroupsRequest
from chordmq.codecs.kafka.messages.describe_groups import DescribeGroupsRequest
from chordmq.codecs.kafka.messages.heartbeat import HeartbeatRequest
from chordmq.codecs.kafka.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from chordmq.codecs.kafka.messages.leave_group import LeaveGroupRequest, MemberIdentity
from chordmq.codecs.kafka.messages.list_groups import ListGroupsRequest
from chordmq.codecs.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from chordmq.codecs.kafka.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from tests.fronts.kafka.conftest import Ask

ILLEGAL_GENERATION = 22
INCONSISTENT_GROUP_PROTOCOL = 23
INVALID_GROUP_ID = 24
UNKNOWN_MEMBER_ID = 25
INVALID_SESSION_TIMEOUT = 26
NON_EMPTY_GROUP = 68
GROUP_ID_NOT_FOUND = 69
MEMBER_ID_REQUIRED = 79
FENCED_INSTANCE_ID = 82


@pytest.fixture
def settings() -> BrokerSettings:
    return BrokerSettings(group_initial_rebalance_delay_ms=0, offsets_topic_num_partitions=1)


@pytest.fixture(autouse=True)
async def loaded(broker: Broker) -> None:
    await broker.groups.loaded.wait()


def joining(**changes: Any) -> JoinGroupRequest:
    fields: dict[str, Any] = {
        "group_id": "g",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 20_000,
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequestProtocol(name="range", metadata=b"meta")],
        **changes,
    }
    return JoinGroupRequest(**fields)


async def join(ask: Ask, version: int = 9, **changes: Any) -> JoinGroupResponse:
    """Join in both steps when the version has two."""
    answer = await ask(joining(**changes), version)
    if answer.error_code == MEMBER_ID_REQUIRED:
        changes["member_id"] = answer.member_id
        answer = await ask(joining(**changes), version)
    assert isinstance(answer, JoinGroupResponse)
    return answer


async def stable(ask: Ask, **changes: Any) -> JoinGroupResponse:
    joined = await join(ask, **changes)
    assignment = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all")
    synced = await ask(
        SyncGroupRequest(
            group_id="g",
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[assignment],
        ),
        4,
    )
    assert synced.error_code == 0
    assert synced.assignment == b"all"
    return joined


@pytest.mark.parametrize("version", JoinGroupRequest.versions)
async def test_a_member_joins_in_every_version(ask: Ask, version: int) -> None:
    """C1: JoinGroup 0-9, with the step that gives an id first from version 4 on."""
    first = await ask(joining(), version)
    if version >= 4:
        assert first.error_code == MEMBER_ID_REQUIRED
        assert first.member_id.startswith("test-")
        assert first.generation_id == -1
        first = await ask(joining(member_id=first.member_id), version)
    assert first.error_code == 0
    assert first.generation_id == 1
    assert first.protocol_name == "range"
    assert first.leader == first.member_id
    assert [member.metadata for member in first.members] == [b"meta"]
    if version >= 7:
        assert first.protocol_type == "consumer"


@pytest.mark.parametrize("version", SyncGroupRequest.versions)
async def test_a_member_gets_its_assignment_in_every_version(ask: Ask, version: int) -> None:
    """C1: SyncGroup 0-5."""
    joined = await join(ask)
    request = SyncGroupRequest(
        group_id="g",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all")],
    )
    if version >= 5:
        request.protocol_type, request.protocol_name = "consumer", "range"
    synced = await ask(request, version)
    assert (synced.error_code, synced.assignment) == (0, b"all")
    if version >= 5:
        assert (synced.protocol_type, synced.protocol_name) == ("consumer", "range")
        for wrong in ("sticky", None):
            request.protocol_name = wrong
            assert (await ask(request, version)).error_code == INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("version", HeartbeatRequest.versions)
async def test_a_heartbeat_is_checked_in_every_version(ask: Ask, version: int) -> None:
    """C1: Heartbeat 0-4."""
    joined = await stable(ask)
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=joined.member_id)
    assert (await ask(beat, version)).error_code == 0
    beat.generation_id = 2
    assert (await ask(beat, version)).error_code == ILLEGAL_GENERATION
    beat.member_id = "nobody"
    assert (await ask(beat, version)).error_code == UNKNOWN_MEMBER_ID
    beat.group_id = "unknown"
    assert (await ask(beat, version)).error_code == UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", LeaveGroupRequest.versions)
async def test_a_member_leaves_in_every_version(ask: Ask, version: int) -> None:
    """C1: LeaveGroup 0-5, in batches from version 3 on."""
    joined = await stable(ask)
    if version < 3:
        leave = LeaveGroupRequest(group_id="g", member_id=joined.member_id)
        assert (await ask(leave, version)).error_code == 0
        assert (await ask(leave, version)).error_code == UNKNOWN_MEMBER_ID
        return
    members = [MemberIdentity(member_id=member) for member in (joined.member_id, "nobody")]
    answer = await ask(LeaveGroupRequest(group_id="g", members=members), version)
    assert answer.error_code == 0
    assert [row.error_code for row in answer.members] == [0, UNKNOWN_MEMBER_ID]
    assert [row.member_id for row in answer.members] == [joined.member_id, "nobody"]
    answer = await ask(LeaveGroupRequest(group_id="unknown", members=members), version)
    assert answer.error_code == 0
    assert [row.error_code for row in answer.members] == [UNKNOWN_MEMBER_ID] * 2


async def test_a_second_member_shares_the_group(ask: Ask) -> None:
    first = await stable(ask)
    given = await ask(joining())
    assert given.error_code == MEMBER_ID_REQUIRED
    again, second = await asyncio.gather(  # the leader's join waits for the one just given an id
        ask(joining(member_id=first.member_id)), ask(joining(member_id=given.member_id))
    )
    assert again.generation_id == second.generation_id == 2
    assert len(again.members) == 2
    assert second.members == []
    assert second.leader == first.member_id


async def test_joins_that_cannot_be_are_refused_with_kafkas_codes(ask: Ask) -> None:
    """C12: error codes of groups."""
    await stable(ask)
    sticky = [JoinGroupRequestProtocol(name="sticky", metadata=b"")]
    refused = [
        (joining(group_id=""), INVALID_GROUP_ID),
        (joining(session_timeout_ms=5_999), INVALID_SESSION_TIMEOUT),
        (joining(session_timeout_ms=1_800_001), INVALID_SESSION_TIMEOUT),
        (joining(protocols=sticky), INCONSISTENT_GROUP_PROTOCOL),
        (joining(protocols=[]), INCONSISTENT_GROUP_PROTOCOL),
        (joining(protocol_type="connect"), INCONSISTENT_GROUP_PROTOCOL),
        (joining(member_id="nobody"), UNKNOWN_MEMBER_ID),
    ]
    for request, code in refused:
        for version in (3, 9):
            answer = await ask(request, version)
            assert answer.error_code == code
            assert answer.protocol_name == ("" if version < 7 else None)


async def test_a_static_member_comes_back_without_a_rebalance(ask: Ask) -> None:
    """C4: static membership on the wire, with the assignment skipped in version 9."""
    first = await stable(ask, group_instance_id="i")
    again = await ask(joining(group_instance_id="i"), 9)
    assert (again.error_code, again.generation_id) == (0, 1)
    assert again.skip_assignment
    assert again.leader == again.member_id != first.member_id
    stale = HeartbeatRequest(
        group_id="g", generation_id=1, member_id=first.member_id, group_instance_id="i"
    )
    assert (await ask(stale)).error_code == FENCED_INSTANCE_ID
    older = await ask(joining(group_instance_id="i"), 8)
    assert older.leader == again.member_id != older.member_id
    assert older.members == []
    operator = LeaveGroupRequest(
        group_id="g", members=[MemberIdentity(member_id="", group_instance_id="i")]
    )
    assert [row.error_code for row in (await ask(operator)).members] == [0]


@pytest.mark.parametrize("version", DescribeGroupsRequest.versions)
async def test_a_group_is_described_in_every_version(ask: Ask, version: int) -> None:
    """C1: DescribeGroups 0-6."""
    joined = await stable(ask, group_instance_id="i")
    request = DescribeGroupsRequest(groups=["g", "unknown"])
    request.include_authorized_operations = version >= 3
    known, unknown = (await ask(request, version)).groups
    assert (known.error_code, known.group_state) == (0, "Stable")
    assert (known.protocol_type, known.protocol_data) == ("consumer", "range")
    (member,) = known.members
    assert (member.member_id, member.client_id) == (joined.member_id, "test")
    assert member.client_host == "/10.0.0.1"
    assert (member.member_metadata, member.member_assignment) == (b"meta", b"all")
    if version >= 3:
        assert known.authorized_operations > 0
    if version >= 4:
        assert member.group_instance_id == "i"
    assert unknown.group_state == "Dead"
    assert unknown.error_code == (GROUP_ID_NOT_FOUND if version >= 6 else 0)
    if version >= 6:
        assert unknown.error_message == "Group unknown not found."


async def test_a_group_in_motion_shows_no_assignments(ask: Ask) -> None:
    await join(ask)
    (group,) = (await ask(DescribeGroupsRequest(groups=["g"]))).groups
    assert (group.group_state, group.protocol_data) == ("CompletingRebalance", "")
    assert (group.members[0].member_metadata, group.members[0].member_assignment) == (b"", b"")


@pytest.mark.parametrize("version", ListGroupsRequest.versions)
async def test_groups_are_listed_in_every_version(ask: Ask, broker: Broker, version: int) -> None:
    """C1: ListGroups 0-5, with filters by state from 4 and by type from 5 on."""
    await stable(ask)
    await broker.topics.create("t", 1, 1)
    await _commit(ask, "simple")

    async def listed(**filters: list[str]) -> dict[str, str]:
        answer = await ask(ListGroupsRequest(**filters), version)
        assert answer.error_code == 0
        return {group.group_id: group.protocol_type for group in answer.groups}

    assert await listed() == {"g": "consumer", "simple": ""}
    if version >= 4:
        assert set(await listed(states_filter=["stable"])) == {"g"}
        assert set(await listed(states_filter=["Empty", "Dead"])) == {"simple"}
        assert await listed(states_filter=["nonsense"]) == {}
    if version >= 5:
        assert set(await listed(types_filter=["Classic"])) == {"g", "simple"}
        assert await listed(types_filter=["consumer"]) == {}


@pytest.mark.parametrize("version", DeleteGroupsRequest.versions)
async def test_groups_are_deleted_in_every_version(ask: Ask, broker: Broker, version: int) -> None:
    """C2: DeleteGroups 0-2."""
    await stable(ask)
    await broker.topics.create("t", 1, 1)
    await _commit(ask, "simple")
    request = DeleteGroupsRequest(groups_names=["simple", "g", "unknown", "simple"])
    rows = (await ask(request, version)).results
    assert [(row.group_id, row.error_code) for row in rows] == [
        ("simple", 0),
        ("g", NON_EMPTY_GROUP),
        ("unknown", GROUP_ID_NOT_FOUND),
    ]
    assert broker.groups.committed("simple") == {}


async def _commit(ask: Ask, group_id: str) -> None:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topic = OffsetCommitRequestTopic(name="t", partitions=[partition])
    answer = await ask(OffsetCommitRequest(group_id=group_id, topics=[topic]), 9)
    assert answer.topics[0].partitions[0].error_code == 0
