"""ConsumerGroupHeartbeat and ConsumerGroupDescribe: the group protocol of KIP-848."""

import uuid
from functools import partial

from chordmq.broker.groups.assignors import Assignment
from chordmq.broker.groups.consumer_groups import (
    JOINING,
    LEAVING,
    Beat,
    ConsumerGroup,
    sees_all,
)
from chordmq.broker.groups.consumer_image import LEFT_FOR_NOW, ConsumerMember
from chordmq.broker.security.acl import Kind, Operation
from chordmq.codecs.kafka.messages import consumer_group_describe as described
from chordmq.codecs.kafka.messages import consumer_group_heartbeat as told
from chordmq.codecs.kafka.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
)
from chordmq.codecs.kafka.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from chordmq.errors import ChordMQError, GroupNotFound, InvalidRequest, TopicAccessDenied
from chordmq.fronts.kafka.access import authorized_operations
from chordmq.fronts.kafka.call import Call
from chordmq.fronts.kafka.errors import code_of, reason_of

MEMBER_NAMES_ITSELF = 1
DEAD = "Dead"
CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1
UNCHANGED = -1


async def consumer_group_heartbeat(
    call: Call, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse:
    """Take a member in, keep it or let it go, and tell it which partitions it may read."""
    if call.version < MEMBER_NAMES_ITSELF and not request.member_id:
        request.member_id = str(uuid.uuid4())
    try:
        call.check(Operation.READ, Kind.GROUP, request.group_id)
        for topic in request.subscribed_topic_names or ():
            call.check(Operation.DESCRIBE, Kind.TOPIC, topic)
        _check(request)
        call.broker.share_groups.refuse(request.group_id)
        beaten = await call.broker.groups.consumer_heartbeat(request.group_id, _beat(call, request))
    except ChordMQError as error:
        return ConsumerGroupHeartbeatResponse(
            error_code=code_of(error), error_message=reason_of(error)
        )
    if request.member_epoch == JOINING:
        call.audit("subscribe", f"group {request.group_id}")
    settings = call.broker.group_settings.of(request.group_id)
    assignment = None
    if beaten.assignment is not None:
        topics = _by_topic(beaten.assignment).items()
        assignment = told.Assignment([told.TopicPartitions(*topic) for topic in topics])
    return ConsumerGroupHeartbeatResponse(
        member_id=beaten.member_id,
        member_epoch=beaten.epoch,
        heartbeat_interval_ms=settings.consumer_heartbeat_interval_ms,
        assignment=assignment,
    )


def _check(request: ConsumerGroupHeartbeatRequest) -> None:
    """Refuse a heartbeat that lacks what its epoch calls for, in the words of Apache Kafka."""
    if not request.group_id:
        raise InvalidRequest("GroupId can't be empty.")
    if not request.member_id:
        raise InvalidRequest("MemberId can't be empty.")
    if request.instance_id == "":
        raise InvalidRequest("InstanceId can't be empty.")
    if request.rack_id == "":
        raise InvalidRequest("RackId can't be empty.")
    epoch = request.member_epoch
    if epoch == JOINING:
        _check_join(request)
    elif epoch == LEFT_FOR_NOW and request.instance_id is None:
        raise InvalidRequest("InstanceId can't be null.")
    elif epoch < 0 and epoch not in (LEAVING, LEFT_FOR_NOW):
        raise InvalidRequest("MemberEpoch is invalid.")


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == UNCHANGED:
        raise InvalidRequest("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise InvalidRequest("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise InvalidRequest(
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null "
            "when (re-)joining."
        )


def _beat(call: Call, request: ConsumerGroupHeartbeatRequest) -> Beat:
    names, owned = request.subscribed_topic_names, request.topic_partitions
    timeout_ms = request.rebalance_timeout_ms
    permissions = call.broker.permissions
    who = (call.client.principal, call.client_host)
    sees = partial(permissions.acl.allows, *who, Operation.DESCRIBE, Kind.TOPIC)
    return Beat(
        member_id=request.member_id,
        epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        client_id=call.client_id,
        client_host=f"/{call.client_host}",
        rebalance_timeout_ms=None if timeout_ms == UNCHANGED else timeout_ms,
        topics=None if names is None else frozenset(names),
        pattern=request.subscribed_topic_regex,
        assignor=request.server_assignor,
        sees=sees if permissions.is_enforced else sees_all,
        owned=None
        if owned is None
        else frozenset((part.topic_id, index) for part in owned for index in part.partitions),
    )


def consumer_group_describe(
    call: Call, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse:
    """Show groups of the consumer protocol with what their members have and are to have."""
    rows = []
    for group_id in request.group_ids:
        try:
            call.check(Operation.DESCRIBE, Kind.GROUP, group_id)
            group = call.broker.groups.find(group_id)
            if not isinstance(group, ConsumerGroup):
                raise GroupNotFound(f"Group {group_id} is not a consumer group.")
            row = _described(call, group)
            _check_topics(call, row)
            if request.include_authorized_operations:
                row.authorized_operations = authorized_operations(call, Kind.GROUP, group_id)
        except ChordMQError as error:
            row = DescribedGroup(code_of(error), reason_of(error), group_id)
            if isinstance(error, GroupNotFound):
                row.group_state = DEAD
        rows.append(row)
    return ConsumerGroupDescribeResponse(groups=rows)


def _described(call: Call, group: ConsumerGroup) -> DescribedGroup:
    image = group.image
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=image.epoch,
        assignment_epoch=image.target_epoch,
        assignor_name=group.assignor,
        members=[_member(call, group, member) for member in image.members.values()],
    )


def _check_topics(call: Call, row: DescribedGroup) -> None:
    """Refuse to name topics that the client may not know of."""
    names = {name for member in row.members for name in member.subscribed_topic_names}
    for member in row.members:
        for assignment in (member.assignment, member.target_assignment):
            names.update(topic.topic_name for topic in assignment.topic_partitions)
    if not all(call.allows(Operation.DESCRIBE, Kind.TOPIC, name) for name in names):
        raise TopicAccessDenied(
            "The group has described topic(s) that the client is not authorized to describe."
        )


def _member(call: Call, group: ConsumerGroup, member: ConsumerMember) -> Member:
    image, member_id = group.image, member.member_id
    holding = image.holding(member_id)
    return Member(
        member_id=member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=holding.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.pattern,
        assignment=_named(call, holding.assigned),
        target_assignment=_named(call, image.target(member_id)),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _named(call: Call, assignment: Assignment) -> described.Assignment:
    """Return partitions with the names of their topics; those of deleted topics fall away."""
    parts = []
    for topic_id, indexes in _by_topic(assignment).items():
        try:
            name = call.broker.topics.by_id(topic_id).name
        except ChordMQError:
            continue
        parts.append(described.TopicPartitions(topic_id, name, indexes))
    return described.Assignment(parts)


def _by_topic(assignment: Assignment) -> dict[bytes, list[int]]:
    topics: dict[bytes, list[int]] = {}
    for topic_id, index in sorted(assignment):
        topics.setdefault(topic_id, []).append(index)
    return topics
