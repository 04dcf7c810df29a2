"""CreateTopics, DeleteTopics, CreatePartitions, DeleteRecords."""

from collections import Counter
from collections.abc import Sequence

from chordmq.broker.security.acl import Kind, Operation
from chordmq.broker.topic import INTERNAL_TOPICS
from chordmq.broker.topics import USE_DEFAULT
from chordmq.codecs.kafka.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from chordmq.codecs.kafka.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from chordmq.codecs.kafka.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from chordmq.codecs.kafka.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from chordmq.errors import (
    ChordMQError,
    InvalidReplicaAssignment,
    InvalidRequest,
    InvalidSetting,
    InvalidTopicName,
    PolicyViolation,
    TopicAccessDenied,
)
from chordmq.fronts.kafka.access import check_create
from chordmq.fronts.kafka.call import Call
from chordmq.fronts.kafka.configs import SOURCES
from chordmq.fronts.kafka.errors import CODES, code_of, reason_of

NO_ID = bytes(16)
NO_OFFSET = -1


async def create_topics(call: Call, request: CreateTopicsRequest) -> CreateTopicsResponse:
    """Make topics; one that cannot be made does not hinder the others."""
    times = Counter(topic.name for topic in request.topics)
    rows = []
    for topic in {topic.name: topic for topic in request.topics}.values():
        try:
            if times[topic.name] > 1:
                raise InvalidRequest("Duplicate topic name.")
            check_create(call, topic.name)
            rows.append(await _create(call, topic, request.validate_only))
        except ChordMQError as error:
            rows.append(
                CreatableTopicResult(
                    name=topic.name, error_code=code_of(error), error_message=reason_of(error)
                )
            )
    return CreateTopicsResponse(topics=rows)


async def _create(call: Call, asked: CreatableTopic, validate_only: bool) -> CreatableTopicResult:
    topics = call.broker.topics
    if asked.name in INTERNAL_TOPICS and topics.find(asked.name) is None:
        raise InvalidRequest(f"Topic {asked.name} is made by the broker itself.")
    partitions, replication_factor = _numbers(call, asked)
    assignment = [
        one.broker_ids for one in sorted(asked.assignments, key=lambda one: one.partition_index)
    ]
    settings = {}
    for config in asked.configs:
        if config.value is None:
            raise InvalidSetting(f"Null value not supported for topic configs: {config.name}")
        settings[config.name] = config.value
    row = topics.check_new(asked.name, partitions, replication_factor, settings)
    topic_id = NO_ID
    if not validate_only:
        call.check_mutations(row.partitions)
        topic = await topics.create(
            asked.name, partitions, replication_factor, settings, assignment
        )
        topic_id = topic.id
        call.audit("topic.create", f"{asked.name}, {row.partitions} partitions")
    if not call.allows(Operation.DESCRIBE_CONFIGS, Kind.TOPIC, asked.name):
        return CreatableTopicResult(
            name=asked.name,
            topic_id=topic_id,
            error_message=None,
            topic_config_error_code=CODES[TopicAccessDenied],
        )
    return CreatableTopicResult(
        name=asked.name,
        topic_id=topic_id,
        error_message=None,
        num_partitions=row.partitions,
        replication_factor=row.replication_factor,
        configs=[
            CreatableTopicConfigs(
                name=shown.setting.name, value=shown.value, config_source=SOURCES[shown.source]
            )
            for shown in topics.settings.shown_for_topic(settings)
        ],
    )


def _numbers(call: Call, asked: CreatableTopic) -> tuple[int, int]:
    """Return the partitions and replicas asked for, as numbers or by a manual assignment."""
    if not asked.assignments:
        return asked.num_partitions, asked.replication_factor
    if asked.num_partitions != USE_DEFAULT or asked.replication_factor != USE_DEFAULT:
        raise InvalidRequest(
            "With a manual assignment, the numbers of partitions and replicas must be -1."
        )
    by_index = {assignment.partition_index: assignment for assignment in asked.assignments}
    if len(by_index) < len(asked.assignments) or sorted(by_index) != list(range(len(by_index))):
        raise InvalidReplicaAssignment(
            "Partitions must be numbered from 0 on, each once and without gaps."
        )
    replicas = len(asked.assignments[0].broker_ids)
    for assignment in asked.assignments:
        _check_assignment(call, assignment.broker_ids, replicas)
    return len(by_index), replicas


def _check_assignment(call: Call, nodes: Sequence[int], count: int) -> None:
    call.broker.administration.check_replicas(nodes)
    if len(nodes) != count:
        raise InvalidReplicaAssignment(
            f"All partitions of a topic have as many replicas: {count}, not {len(nodes)}."
        )


async def delete_topics(call: Call, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """Delete topics by name or, from version 6 on, by id."""
    asked = request.topics
    if call.version < 6:
        asked = [DeleteTopicState(name=name) for name in request.topic_names]
    times = Counter((topic.name, topic.topic_id) for topic in asked)
    rows = []
    for topic in {(topic.name, topic.topic_id): topic for topic in asked}.values():
        try:
            if times[topic.name, topic.topic_id] > 1:
                raise InvalidRequest("Duplicate topic name or id.")
            rows.append(await _delete(call, topic))
        except ChordMQError as error:
            rows.append(
                DeletableTopicResult(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    error_code=code_of(error),
                    error_message=reason_of(error),
                )
            )
    return DeleteTopicsResponse(responses=rows)


async def _delete(call: Call, asked: DeleteTopicState) -> DeletableTopicResult:
    topics = call.broker.topics
    if (asked.name is None) == (asked.topic_id == NO_ID):
        raise InvalidRequest("A topic is named by its name or by its id, and not by both.")
    topic = topics.by_id(asked.topic_id) if asked.name is None else None
    name = asked.name or (topic.name if topic else "")
    call.check(Operation.DELETE, Kind.TOPIC, name)
    topic = topic or topics.get(name)
    if topic.is_internal:
        raise PolicyViolation(f"Topic {topic.name} is the broker's own.")
    call.check_mutations(len(topic.partitions))
    await topics.delete(topic.name)
    call.audit("topic.delete", topic.name)
    return DeletableTopicResult(name=topic.name, topic_id=topic.id)


async def create_partitions(
    call: Call, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    """Let topics grow; one row per topic."""
    times = Counter(topic.name for topic in request.topics)
    rows = []
    for topic in {topic.name: topic for topic in request.topics}.values():
        row = CreatePartitionsTopicResult(name=topic.name)
        try:
            if times[topic.name] > 1:
                raise InvalidRequest("Duplicate topic name.")
            call.check(Operation.ALTER, Kind.TOPIC, topic.name)
            await _grow(call, topic, request.validate_only)
        except ChordMQError as error:
            row.error_code, row.error_message = code_of(error), reason_of(error)
        rows.append(row)
    return CreatePartitionsResponse(results=rows)


async def _grow(call: Call, asked: CreatePartitionsTopic, validate_only: bool) -> None:
    topics = call.broker.topics
    topic = topics.check_more(asked.name, asked.count)
    if topic.is_internal:
        raise PolicyViolation(f"Topic {topic.name} is the broker's own.")
    if asked.assignments is not None:
        more = asked.count - len(topic.partitions)
        if len(asked.assignments) != more:
            raise InvalidReplicaAssignment(
                f"{more} partitions are added, {len(asked.assignments)} assignments were given."
            )
        replicas = len(topics.state(topic, 0).replicas)
        for assignment in asked.assignments:
            _check_assignment(call, assignment.broker_ids, replicas)
    if not validate_only:
        call.check_mutations(asked.count - len(topic.partitions))
        given = [one.broker_ids for one in asked.assignments or ()]
        await topics.add_partitions(asked.name, asked.count, given)
        call.audit("topic.grow", f"{asked.name}, {asked.count} partitions")


async def delete_records(call: Call, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """Drop the records before an offset; -1 drops all that are committed."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[await _delete_records(call, topic.name, p) for p in topic.partitions],
            )
            for topic in request.topics
        ]
    )


async def _delete_records(
    call: Call, name: str, asked: DeleteRecordsPartition
) -> DeleteRecordsPartitionResult:
    index = asked.partition_index
    try:
        call.check(Operation.DELETE, Kind.TOPIC, name)
        if name in INTERNAL_TOPICS:
            raise InvalidTopicName(f"Topic {name} is the broker's own.")
        partition = call.broker.partition(name, index)
        if call.broker.topics.get(name).settings.cleanup_policy == ("compact",):
            raise PolicyViolation("A topic that is only compacted keeps its newest records.")
        start = await partition.delete_records(asked.offset)
        call.audit("records.delete", f"{name}-{index} before {start}")
    except ChordMQError as error:
        return DeleteRecordsPartitionResult(
            partition_index=index, low_watermark=NO_OFFSET, error_code=code_of(error)
        )
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=start)
