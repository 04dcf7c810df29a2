"""Metadata, DescribeTopicPartitions: which topics there are, and where their partitions lie."""

from collections.abc import Coroutine, Iterable

from chordmq.broker.security.acl import Kind, Operation
from chordmq.broker.topic import INTERNAL_TOPICS, Topic, check_name
from chordmq.cluster.state import NO_LEADER
from chordmq.codecs.kafka.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from chordmq.codecs.kafka.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from chordmq.errors import ChordMQError, InvalidRequest
from chordmq.fronts.kafka.access import (
    NOT_ASKED,
    authorized_operations,
    check_create,
    cluster_operations,
)
from chordmq.fronts.kafka.call import Call
from chordmq.fronts.kafka.errors import code_of
from chordmq.fronts.kafka.nodes import nodes

NO_ID = bytes(16)
LEADER_NOT_AVAILABLE = 5
PARTITIONS_PER_ANSWER_MAX = 2000


def metadata(
    call: Call, request: MetadataRequest
) -> MetadataResponse | Coroutine[None, None, MetadataResponse]:
    """Name the nodes and the topics asked for; topics not there may be made by asking."""
    asked = request.topics
    if asked is None or (not asked and call.version == 0):
        return _response(call, request, [_topic(call, request, topic) for topic in _all(call)])
    if call.version in (10, 11) and any(t.name is None or t.topic_id != NO_ID for t in asked):
        # KIP-516: ids may be asked for from version 12 on.
        refused = InvalidRequest("topic ids need version 12")
        return _response(call, request, [_failed(topic, refused, "") for topic in asked])
    for topic in asked:
        if not topic.name and topic.topic_id != NO_ID:  # the Java client asks with an empty name
            topic.name = None
    topics = call.broker.topics
    if _may_create(call, request) and any(t.name and topics.find(t.name) is None for t in asked):
        return _with_new_topics(call, request, asked)
    return _response(call, request, [_found(call, request, topic) for topic in _distinct(asked)])


async def _with_new_topics(
    call: Call, request: MetadataRequest, asked: list[MetadataRequestTopic]
) -> MetadataResponse:
    rows = []
    for topic in _distinct(asked):
        try:
            if topic.name and topic.name not in INTERNAL_TOPICS:
                await _ensure(call, topic.name)
            rows.append(_found(call, request, topic))
        except ChordMQError as error:
            rows.append(_failed(topic, error))
    return _response(call, request, rows)


async def _ensure(call: Call, name: str) -> None:
    call.check(Operation.DESCRIBE, Kind.TOPIC, name)
    if call.broker.topics.find(name) is None:
        check_create(call, name)
    await call.broker.topics.ensure(name)


def _may_create(call: Call, request: MetadataRequest) -> bool:
    settings = call.broker.topics.settings
    return settings.auto_create_topics_enable and request.allow_auto_topic_creation


def _distinct(asked: list[MetadataRequestTopic]) -> Iterable[MetadataRequestTopic]:
    return {(topic.name, topic.topic_id): topic for topic in asked}.values()


def _all(call: Call) -> Iterable[Topic]:
    """Return every topic that the client may know of."""
    topics = call.broker.topics
    return (one for one in topics if call.allows(Operation.DESCRIBE, Kind.TOPIC, one.name))


def _found(
    call: Call, request: MetadataRequest, asked: MetadataRequestTopic
) -> MetadataResponseTopic:
    topics = call.broker.topics
    try:
        if asked.name is None:
            topic = topics.by_id(asked.topic_id)
            call.check(Operation.DESCRIBE, Kind.TOPIC, topic.name)
            return _topic(call, request, topic)
        call.check(Operation.DESCRIBE, Kind.TOPIC, asked.name)
        check_name(asked.name)
        return _topic(call, request, topics.get(asked.name))
    except ChordMQError as error:
        return _failed(asked, error)


def _failed(
    asked: MetadataRequestTopic, error: ChordMQError, nameless: str | None = None
) -> MetadataResponseTopic:
    name = nameless if asked.name is None else asked.name
    return MetadataResponseTopic(error_code=code_of(error), name=name, topic_id=asked.topic_id)


def _topic(call: Call, request: MetadataRequest, topic: Topic) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=[_partition(call, topic, index) for index in range(len(topic.partitions))],
        topic_authorized_operations=(
            authorized_operations(call, Kind.TOPIC, topic.name)
            if request.include_topic_authorized_operations
            else NOT_ASKED
        ),
    )


def _partition(call: Call, topic: Topic, index: int) -> MetadataResponsePartition:
    members, state = call.broker.members, call.broker.topics.state(topic, index)
    is_led = members.is_live(state.leader)
    return MetadataResponsePartition(
        error_code=0 if is_led else LEADER_NOT_AVAILABLE,
        partition_index=index,
        leader_id=state.leader if is_led else NO_LEADER,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.isr),
        offline_replicas=[one for one in state.replicas if not members.is_live(one)],
    )


def _response(
    call: Call, request: MetadataRequest, topics: list[MetadataResponseTopic]
) -> MetadataResponse:
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node.id, host=node.host, port=node.port, rack=node.rack)
            for node in nodes(call)
        ],
        cluster_id=call.broker.cluster_id,
        controller_id=call.broker.members.controller(),
        topics=topics,
        cluster_authorized_operations=cluster_operations(
            call, request.include_cluster_authorized_operations
        ),
    )


def describe_topic_partitions(
    call: Call, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    """Describe the topics asked for, or all, by name; a long answer comes in pieces."""
    names = sorted({t.name for t in request.topics} or {t.name for t in _all(call)})
    start = 0
    if request.cursor is not None:
        first = request.cursor.topic_name
        names = [name for name in names if name >= first]
        if names and names[0] == first:
            start = max(0, request.cursor.partition_index)
    room = max(1, min(request.response_partition_limit, PARTITIONS_PER_ANSWER_MAX))
    rows: list[DescribeTopicPartitionsResponseTopic] = []
    for name in names:
        if room == 0:
            return DescribeTopicPartitionsResponse(
                topics=rows, next_cursor=Cursor(topic_name=name, partition_index=0)
            )
        row, following = _described(call, name, start, room)
        rows.append(row)
        if following is not None:
            return DescribeTopicPartitionsResponse(topics=rows, next_cursor=following)
        room -= len(row.partitions)
        start = 0
    return DescribeTopicPartitionsResponse(topics=rows)


def _described(
    call: Call, name: str, start: int, room: int
) -> tuple[DescribeTopicPartitionsResponseTopic, Cursor | None]:
    try:
        call.check(Operation.DESCRIBE, Kind.TOPIC, name)
        check_name(name)
        topic = call.broker.topics.get(name)
    except ChordMQError as error:
        return DescribeTopicPartitionsResponseTopic(error_code=code_of(error), name=name), None
    row = DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=[
            _described_partition(call, topic, index)
            for index in range(len(topic.partitions))[start : start + room]
        ],
        topic_authorized_operations=authorized_operations(call, Kind.TOPIC, name),
    )
    if start + room < len(topic.partitions):
        return row, Cursor(topic_name=name, partition_index=start + room)
    return row, None


def _described_partition(
    call: Call, topic: Topic, index: int
) -> DescribeTopicPartitionsResponsePartition:
    state, shown = call.broker.topics.state(topic, index), _partition(call, topic, index)
    return DescribeTopicPartitionsResponsePartition(
        error_code=shown.error_code,
        partition_index=index,
        leader_id=shown.leader_id,
        leader_epoch=shown.leader_epoch,
        replica_nodes=shown.replica_nodes,
        isr_nodes=shown.isr_nodes,
        eligible_leader_replicas=list(state.elr),  # Java's client dies of null here
        last_known_elr=list(state.last_known_elr),
        offline_replicas=shown.offline_replicas,
    )
