"""ShareGroupHeartbeat, ShareGroupDescribe and the three APIs for share-group offsets."""

from collections.abc import Iterable, Sequence

from chordmq.broker.cursors.cursor import Cursor
from chordmq.broker.groups.share_coordinator import Start
from chordmq.broker.groups.share_groups import ASSIGNOR, JOINING, Beat, Place, ShareGroup
from chordmq.broker.security.acl import Kind, Operation
from chordmq.codecs.kafka.messages import share_group_describe as described
from chordmq.codecs.kafka.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from chordmq.codecs.kafka.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from chordmq.codecs.kafka.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from chordmq.codecs.kafka.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from chordmq.codecs.kafka.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)
from chordmq.errors import ChordMQError
from chordmq.fronts.kafka.access import authorized_operations
from chordmq.fronts.kafka.call import Call
from chordmq.fronts.kafka.errors import code_of, reason_of

DEAD = "Dead"
NO_OFFSET = -1


async def share_group_heartbeat(
    call: Call, request: ShareGroupHeartbeatRequest
) -> ShareGroupHeartbeatResponse:
    """Take a member in, keep it or let it go, and tell it which partitions it reads."""
    topics = request.subscribed_topic_names
    beat = Beat(
        member_id=request.member_id,
        epoch=request.member_epoch,
        topics=None if topics is None else frozenset(topics),
        client_id=call.client_id,
        client_host=f"/{call.client_host}",
        rack_id=request.rack_id,
    )
    try:
        call.check(Operation.READ, Kind.GROUP, request.group_id)
        for topic in topics or ():
            call.check(Operation.DESCRIBE, Kind.TOPIC, topic)
        beaten = await call.broker.share_groups.beat(request.group_id, beat)
    except ChordMQError as error:
        return ShareGroupHeartbeatResponse(
            error_code=code_of(error), error_message=reason_of(error)
        )
    if request.member_epoch == JOINING:
        call.audit("subscribe", f"group {request.group_id}")
    assignment = None
    if beaten.assignment is not None:
        by_topic = _by_topic(beaten.assignment)
        assignment = Assignment([TopicPartitions(*topic) for topic in by_topic.items()])
    return ShareGroupHeartbeatResponse(
        member_id=request.member_id,
        member_epoch=beaten.epoch,
        heartbeat_interval_ms=(
            call.broker.group_settings.of(request.group_id).share_heartbeat_interval_ms
        ),
        assignment=assignment,
    )


def _by_topic(places: Iterable[Place]) -> dict[bytes, list[int]]:
    topics: dict[bytes, list[int]] = {}
    for topic_id, index in sorted(places):
        topics.setdefault(topic_id, []).append(index)
    return topics


def share_group_describe(
    call: Call, request: ShareGroupDescribeRequest
) -> ShareGroupDescribeResponse:
    """Show share groups with their members and what each reads."""
    rows = []
    for group_id in request.group_ids:
        try:
            call.check(Operation.DESCRIBE, Kind.GROUP, group_id)
            row = _described(call, call.broker.share_groups.find(group_id))
            if request.include_authorized_operations:
                row.authorized_operations = authorized_operations(call, Kind.GROUP, group_id)
        except ChordMQError as error:
            row = DescribedGroup(
                group_id=group_id,
                group_state=DEAD,
                error_code=code_of(error),
                error_message=reason_of(error),
            )
        rows.append(row)
    return ShareGroupDescribeResponse(groups=rows)


def _described(call: Call, group: ShareGroup) -> DescribedGroup:
    names = {topic.id: topic.name for topic in call.broker.topics}
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.epoch,
        assignor_name=ASSIGNOR,
        members=[
            described.Member(
                member_id=member.member_id,
                rack_id=member.rack_id,
                member_epoch=member.epoch,
                client_id=member.client_id,
                client_host=member.client_host,
                subscribed_topic_names=sorted(member.topics),
                assignment=described.Assignment(
                    [
                        described.TopicPartitions(topic_id, names[topic_id], indexes)
                        for topic_id, indexes in _by_topic(member.assignment).items()
                        if topic_id in names
                    ]
                ),
            )
            for member in group.members.values()
        ],
    )


def describe_share_group_offsets(
    call: Call, request: DescribeShareGroupOffsetsRequest
) -> DescribeShareGroupOffsetsResponse:
    """Show where share groups stand: all before the start offset is processed."""
    rows = []
    for wanted in request.groups:
        row = DescribeShareGroupOffsetsResponseGroup(group_id=wanted.group_id)
        try:
            call.check(Operation.DESCRIBE, Kind.GROUP, wanted.group_id)
            row.topics = _offsets(call, wanted)
        except ChordMQError as error:
            row.error_code, row.error_message = code_of(error), reason_of(error)
        rows.append(row)
    return DescribeShareGroupOffsetsResponse(groups=rows)


def _offsets(
    call: Call, wanted: DescribeShareGroupOffsetsRequestGroup
) -> list[DescribeShareGroupOffsetsResponseTopic]:
    known: dict[str, dict[int, Cursor]] = {}
    for cursor in call.broker.share_groups.cursors(wanted.group_id):
        if call.allows(Operation.DESCRIBE, Kind.TOPIC, cursor.partition.topic):
            known.setdefault(cursor.partition.topic, {})[cursor.key.partition] = cursor
    asked: list[tuple[str, Sequence[int]]] = [
        (name, sorted(cursors)) for name, cursors in sorted(known.items())
    ]
    if wanted.topics is not None:
        asked = [(topic.topic_name, topic.partitions) for topic in wanted.topics]
    rows = []
    for name, indexes in asked:
        topic = call.broker.topics.find(name)
        row = DescribeShareGroupOffsetsResponseTopic(topic_name=name)
        if topic is not None and call.allows(Operation.DESCRIBE, Kind.TOPIC, name):
            row.topic_id = topic.id
        row.partitions = [_offset(index, known.get(name, {}).get(index)) for index in indexes]
        rows.append(row)
    return rows


def _offset(index: int, cursor: Cursor | None) -> DescribeShareGroupOffsetsResponsePartition:
    row = DescribeShareGroupOffsetsResponsePartition(
        partition_index=index, start_offset=NO_OFFSET, leader_epoch=0
    )
    if cursor is not None:
        row.start_offset = max(cursor.machine.start, cursor.partition.log.start_offset)
        row.leader_epoch = cursor.partition.leader_epoch
        row.lag = cursor.lag
    return row


async def alter_share_group_offsets(
    call: Call, request: AlterShareGroupOffsetsRequest
) -> AlterShareGroupOffsetsResponse:
    """Let an empty share group begin elsewhere."""
    topics: list[AlterShareGroupOffsetsResponseTopic] = []
    starts: list[Start] = []
    rows: list[AlterShareGroupOffsetsResponsePartition] = []
    try:
        call.check(Operation.READ, Kind.GROUP, request.group_id)
        for asked in request.topics:
            topic = AlterShareGroupOffsetsResponseTopic(topic_name=asked.topic_name)
            topics.append(topic)
            for wanted in asked.partitions:
                row = AlterShareGroupOffsetsResponsePartition(wanted.partition_index)
                topic.partitions.append(row)
                try:
                    call.check(Operation.READ, Kind.TOPIC, asked.topic_name)
                    topic.topic_id = call.broker.topics.get(asked.topic_name).id
                except ChordMQError as error:
                    row.error_code, row.error_message = code_of(error), reason_of(error)
                    continue
                starts.append(Start(asked.topic_name, wanted.partition_index, wanted.start_offset))
                rows.append(row)
        results = await call.broker.share_groups.set_starts(request.group_id, starts)
    except ChordMQError as error:
        return AlterShareGroupOffsetsResponse(
            error_code=code_of(error), error_message=reason_of(error)
        )
    for row, result in zip(rows, results, strict=True):
        if result is not None:
            row.error_code, row.error_message = code_of(result), reason_of(result)
    return AlterShareGroupOffsetsResponse(responses=topics)


async def delete_share_group_offsets(
    call: Call, request: DeleteShareGroupOffsetsRequest
) -> DeleteShareGroupOffsetsResponse:
    """Forget what an empty share group has processed of some topics."""
    rows = []
    try:
        call.check(Operation.DELETE, Kind.GROUP, request.group_id)
        call.broker.share_groups.check_empty(request.group_id)
    except ChordMQError as error:
        return DeleteShareGroupOffsetsResponse(
            error_code=code_of(error), error_message=reason_of(error)
        )
    for asked in request.topics:
        row = DeleteShareGroupOffsetsResponseTopic(topic_name=asked.topic_name)
        try:
            call.check(Operation.READ, Kind.TOPIC, asked.topic_name)
            row.topic_id = call.broker.topics.get(asked.topic_name).id
            await call.broker.share_groups.delete_starts(request.group_id, asked.topic_name)
        except ChordMQError as error:
            row.error_code, row.error_message = code_of(error), reason_of(error)
        rows.append(row)
    return DeleteShareGroupOffsetsResponse(responses=rows)
