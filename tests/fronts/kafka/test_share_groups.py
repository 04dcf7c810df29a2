"""Share groups as administrators and members see them over the wire."""

import pytest

from chordmq.broker.broker import Broker
from chordmq.codecs.kafka.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from chordmq.codecs.kafka.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from chordmq.codecs.kafka.messages.delete_groups import DeleteGroupsRequest
from chordmq.codecs.kafka.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from chordmq.codecs.kafka.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from chordmq.codecs.kafka.messages.join_group import JoinGroupRequest
from chordmq.codecs.kafka.messages.list_groups import ListGroupsRequest
from chordmq.codecs.kafka.messages.share_group_describe import ShareGroupDescribeRequest
from chordmq.codecs.kafka.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from chordmq.records.record import NewRecord
from tests.fronts.kafka.conftest import Ask

UNKNOWN_TOPIC, INCONSISTENT_PROTOCOL, UNKNOWN_MEMBER = 3, 23, 25
INVALID_REQUEST, GROUP_NOT_EMPTY, GROUP_NOT_FOUND, FENCED_EPOCH = 42, 68, 69, 110


@pytest.fixture(autouse=True)
async def topic(broker: Broker) -> bytes:
    await broker.cursors.loaded.wait()
    await broker.groups.loaded.wait()
    created = await broker.topics.create("t", 2)
    await broker.append_records("t", 0, [NewRecord(0, None, b"x")] * 3)
    return created.id


def heartbeat(epoch: int = 0, member: str = "m") -> ShareGroupHeartbeatRequest:
    topics = ["t"] if epoch == 0 else None
    return ShareGroupHeartbeatRequest("g", member, epoch, "rack", topics)


async def test_a_member_joins_beats_and_leaves(ask: Ask, topic: bytes) -> None:
    """C4: ShareGroupHeartbeat."""
    joined = await ask(heartbeat())
    assert (joined.error_code, joined.member_id, joined.member_epoch) == (0, "m", 1)
    assert joined.heartbeat_interval_ms == 5000
    (assigned,) = joined.assignment.topic_partitions
    assert (assigned.topic_id, assigned.partitions) == (topic, [0, 1])
    assert (await ask(heartbeat(1))).assignment is None
    assert (await ask(heartbeat(9))).error_code == FENCED_EPOCH
    assert (await ask(heartbeat(-1))).member_epoch == -1
    assert (await ask(heartbeat(1))).error_code == UNKNOWN_MEMBER
    assert (await ask(heartbeat(0, ""))).error_code == INVALID_REQUEST


async def test_a_group_is_described_with_its_members(ask: Ask, topic: bytes) -> None:
    """C4: ShareGroupDescribe."""
    await ask(heartbeat())
    request = ShareGroupDescribeRequest(["g", "absent"], include_authorized_operations=True)
    found, absent = (await ask(request)).groups
    assert (found.group_state, found.group_epoch, found.assignor_name) == ("Stable", 1, "simple")
    assert found.authorized_operations > 0
    (member,) = found.members
    assert (member.member_id, member.rack_id, member.client_id) == ("m", "rack", "test")
    assert (member.client_host, member.subscribed_topic_names) == ("/10.0.0.1", ["t"])
    (assigned,) = member.assignment.topic_partitions
    assert (assigned.topic_name, assigned.partitions) == ("t", [0, 1])
    assert (absent.error_code, absent.group_state) == (GROUP_NOT_FOUND, "Dead")


async def test_share_groups_are_listed_and_deleted_like_others(ask: Ask) -> None:
    await ask(heartbeat())
    for request, names in [
        (ListGroupsRequest(), ["g"]),
        (ListGroupsRequest(types_filter=["share"]), ["g"]),
        (ListGroupsRequest(types_filter=["classic"]), []),
        (ListGroupsRequest(states_filter=["Empty"]), []),
    ]:
        assert [row.group_id for row in (await ask(request)).groups] == names
    (row,) = (await ask(DeleteGroupsRequest(["g"]))).results
    assert row.error_code == GROUP_NOT_EMPTY
    await ask(heartbeat(-1))
    (row,) = (await ask(DeleteGroupsRequest(["g"]))).results
    assert row.error_code == 0
    assert (await ask(ListGroupsRequest())).groups == []


async def test_members_of_another_kind_are_refused(ask: Ask) -> None:
    await ask(heartbeat())
    join = JoinGroupRequest(group_id="g", session_timeout_ms=10_000, protocol_type="consumer")
    assert (await ask(join)).error_code == INCONSISTENT_PROTOCOL
    beat = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        rebalance_timeout_ms=1000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    assert (await ask(beat)).error_code == GROUP_NOT_FOUND


async def test_offsets_are_shown_set_and_deleted(ask: Ask, topic: bytes) -> None:
    """C4: the start of a share group, where all before it is processed."""
    await ask(heartbeat())
    await ask(heartbeat(-1))
    everything = DescribeShareGroupOffsetsRequestGroup("g", None)
    asked = DescribeShareGroupOffsetsRequestGroup(
        "g", [DescribeShareGroupOffsetsRequestTopic("t", [0, 7])]
    )
    absent = DescribeShareGroupOffsetsRequestGroup("absent", None)
    request = DescribeShareGroupOffsetsRequest([everything, asked, absent])
    all_, some, none = (await ask(request)).groups
    assert [(row.start_offset, row.lag) for row in all_.topics[0].partitions] == [(3, 0), (0, 0)]
    assert [row.start_offset for row in some.topics[0].partitions] == [3, -1]
    assert none.error_code == GROUP_NOT_FOUND
    places = [AlterShareGroupOffsetsRequestPartition(index, 1) for index in (0, 7)]
    topics = [AlterShareGroupOffsetsRequestTopic(name, places) for name in ("t", "absent")]
    answer = await ask(AlterShareGroupOffsetsRequest("g", topics))
    assert answer.responses[0].topic_id == topic
    codes = [[row.error_code for row in one.partitions] for one in answer.responses]
    assert codes == [[0, UNKNOWN_TOPIC], [UNKNOWN_TOPIC, UNKNOWN_TOPIC]]
    (group,) = (await ask(DescribeShareGroupOffsetsRequest([everything]))).groups
    row = group.topics[0].partitions[0]
    assert (row.start_offset, row.lag) == (1, 2)
    wanted = [DeleteShareGroupOffsetsRequestTopic(name) for name in ("t", "absent")]
    answer = await ask(DeleteShareGroupOffsetsRequest("g", wanted))
    assert [row.error_code for row in answer.responses] == [0, UNKNOWN_TOPIC]
    (group,) = (await ask(DescribeShareGroupOffsetsRequest([everything]))).groups
    assert group.topics == []


async def test_the_offsets_of_a_group_at_work_cannot_be_changed(ask: Ask) -> None:
    await ask(heartbeat())
    for request in (AlterShareGroupOffsetsRequest("g"), DeleteShareGroupOffsetsRequest("g")):
        assert (await ask(request)).error_code == GROUP_NOT_EMPTY
