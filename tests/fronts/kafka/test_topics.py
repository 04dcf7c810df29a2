"""CreateTopics, DeleteTopics, CreatePartitions and DeleteRecords on a real broker."""

import dataclasses

import pytest
from msgspec import structs

from chordmq.broker.broker import Broker
from chordmq.codecs.kafka.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from chordmq.codecs.kafka.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from chordmq.codecs.kafka.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from chordmq.codecs.kafka.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from chordmq.records.record import NewRecord
from tests.fronts.kafka.conftest import NODE_ID, Ask

OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC, INVALID_TOPIC = 1, 3, 17
TOPIC_EXISTS, INVALID_PARTITIONS, INVALID_REPLICATION, INVALID_ASSIGNMENT = 36, 37, 38, 39
INVALID_CONFIG, INVALID_REQUEST, POLICY_VIOLATION = 40, 42, 44
TOPIC_DELETION_DISABLED, UNKNOWN_TOPIC_ID = 73, 100


def topic(name: str, partitions: int = 1, replicas: int = 1, **settings: str) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[
            CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in settings.items()
        ],
    )


def assigned(name: str, *nodes: list[int], first: int = 0) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[
            CreatableReplicaAssignment(partition_index=first + i, broker_ids=ids)
            for i, ids in enumerate(nodes)
        ],
    )


@pytest.mark.parametrize("version", CreateTopicsRequest.versions)
async def test_a_topic_is_made_and_described_in_the_answer(
    ask: Ask, broker: Broker, version: int
) -> None:
    """C1: CreateTopics in all versions; the settings come back from version 5 on."""
    request = CreateTopicsRequest(topics=[topic("t", 3, retention_ms="1000")])
    (row,) = (await ask(request, version)).topics
    assert (row.name, row.error_code, row.error_message) == ("t", 0, None)
    made = broker.topics.get("t")
    assert len(made.partitions) == 3
    assert made.settings.retention_ms == 1000
    if version >= 5:
        assert (row.num_partitions, row.replication_factor) == (3, 1)
        shown = {config.name: (config.value, config.config_source) for config in row.configs}
        assert shown["retention.ms"] == ("1000", 1)
        assert shown["segment.bytes"] == ("1073741824", 5)
    if version >= 7:
        assert row.topic_id == made.id


async def test_numbers_of_minus_one_mean_the_nodes_defaults(ask: Ask, broker: Broker) -> None:
    """C1: KIP-464."""
    (row,) = (await ask(CreateTopicsRequest(topics=[topic("t", -1, -1)]))).topics
    assert (row.error_code, row.num_partitions, row.replication_factor) == (0, 2, 1)
    assert len(broker.topics.get("t").partitions) == 2


async def test_validating_makes_nothing(ask: Ask, broker: Broker) -> None:
    request = CreateTopicsRequest(topics=[topic("t", 3), topic("a/b")], validate_only=True)
    good, bad = (await ask(request)).topics
    assert (good.error_code, good.num_partitions, good.topic_id) == (0, 3, bytes(16))
    assert bad.error_code == INVALID_TOPIC
    assert broker.topics.find("t") is None


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (topic("there"), TOPIC_EXISTS),
        (topic("the.re"), INVALID_TOPIC),
        (topic("a/b"), INVALID_TOPIC),
        (topic(""), INVALID_TOPIC),
        (topic("x" * 250), INVALID_TOPIC),
        (topic("t", 0), INVALID_PARTITIONS),
        (topic("t", -2), INVALID_PARTITIONS),
        (topic("t", 10_001), POLICY_VIOLATION),
        (topic("t", 1, 0), INVALID_REPLICATION),
        (topic("t", 1, 3), INVALID_REPLICATION),
        (topic("t", colour="red"), INVALID_CONFIG),
        (topic("t", retention_ms="never"), INVALID_CONFIG),
        (topic("t", remote_storage_enable="true"), INVALID_CONFIG),
        (topic("__cluster_metadata"), INVALID_REQUEST),
        (topic("__transaction_state"), INVALID_REQUEST),
        (structs.replace(assigned("t", [NODE_ID]), num_partitions=1), INVALID_REQUEST),
        (assigned("t", [NODE_ID], [NODE_ID + 1]), INVALID_ASSIGNMENT),
        (assigned("t", [NODE_ID, NODE_ID]), INVALID_ASSIGNMENT),
        (assigned("t", []), INVALID_ASSIGNMENT),
        (assigned("t", [NODE_ID], first=1), INVALID_ASSIGNMENT),
    ],
)
async def test_a_topic_that_cannot_be_made_is_refused_with_kafkas_code(
    ask: Ask, broker: Broker, asked: CreatableTopic, code: int
) -> None:
    """C12: each fault has Kafka's own code, and the others in the request are made."""
    await broker.topics.create("there")
    await broker.topics.create("the_re")
    bad, good = (await ask(CreateTopicsRequest(topics=[asked, topic("good")]))).topics
    assert bad.error_code == code
    assert bad.error_message
    assert good.error_code == 0
    assert broker.topics.find("t") is None


async def test_a_null_setting_is_refused(ask: Ask) -> None:
    asked = CreatableTopic(
        name="t",
        num_partitions=1,
        replication_factor=1,
        configs=[CreatableTopicConfig(name="retention.ms", value=None)],
    )
    (row,) = (await ask(CreateTopicsRequest(topics=[asked]))).topics
    assert row.error_code == INVALID_CONFIG


async def test_a_topic_that_stands_in_the_request_twice_is_not_made(
    ask: Ask, broker: Broker
) -> None:
    """C12: duplicates get one row with INVALID_REQUEST."""
    request = CreateTopicsRequest(topics=[topic("t", 1), topic("u"), topic("t", 2)])
    rows = (await ask(request)).topics
    assert [(row.name, row.error_code) for row in rows] == [("t", INVALID_REQUEST), ("u", 0)]
    assert broker.topics.find("t") is None


async def test_a_manual_assignment_to_this_node_is_followed(ask: Ask, broker: Broker) -> None:
    request = CreateTopicsRequest(topics=[assigned("t", [NODE_ID], [NODE_ID])])
    (row,) = (await ask(request)).topics
    assert (row.error_code, row.num_partitions) == (0, 2)


@pytest.mark.parametrize("version", DeleteTopicsRequest.versions)
async def test_topics_are_deleted_by_name(ask: Ask, broker: Broker, version: int) -> None:
    """C1: DeleteTopics in all versions."""
    made = await broker.topics.create("t")
    request = DeleteTopicsRequest(topic_names=["t", "nope"])
    if version >= 6:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=n) for n in ("t", "nope")])
    good, bad = (await ask(request, version)).responses
    assert (good.name, good.error_code) == ("t", 0)
    assert (bad.name, bad.error_code) == ("nope", UNKNOWN_TOPIC)
    assert broker.topics.find("t") is None
    if version >= 6:
        assert good.topic_id == made.id


async def test_topics_are_deleted_by_id(ask: Ask, broker: Broker) -> None:
    """C1: an unknown id has its own code and no name."""
    made = await broker.topics.create("t")
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(topic_id=made.id), DeleteTopicState(topic_id=b"?" * 16)]
    )
    good, bad = (await ask(request)).responses
    assert (good.name, good.error_code, good.topic_id) == ("t", 0, made.id)
    assert (bad.name, bad.error_code) == (None, UNKNOWN_TOPIC_ID)


async def test_an_unclear_deletion_deletes_nothing(ask: Ask, broker: Broker) -> None:
    """C12: neither name nor id, both, or one twice."""
    made = await broker.topics.create("t")
    both = DeleteTopicState(name="t", topic_id=made.id)
    twice = DeleteTopicState(name="t")
    request = DeleteTopicsRequest(topics=[DeleteTopicState(), both, twice, twice])
    rows = (await ask(request)).responses
    assert [row.error_code for row in rows] == [INVALID_REQUEST] * 3
    assert broker.topics.find("t") is made


async def test_deletion_can_be_switched_off(ask: Ask, broker: Broker) -> None:
    await broker.topics.create("t")
    broker.topics.settings = dataclasses.replace(broker.topics.settings, delete_topic_enable=False)
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")])
    (row,) = (await ask(request)).responses
    assert row.error_code == TOPIC_DELETION_DISABLED


async def test_the_brokers_own_topics_are_not_deleted(ask: Ask, broker: Broker) -> None:
    if broker.topics.find("__consumer_offsets") is None:
        await broker.topics.create("__consumer_offsets")
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name="__consumer_offsets")])
    (row,) = (await ask(request)).responses
    assert row.error_code == POLICY_VIOLATION
    assert broker.topics.find("__consumer_offsets")


@pytest.mark.parametrize("version", CreatePartitionsRequest.versions)
async def test_topics_grow_with_one_row_each(ask: Ask, broker: Broker, version: int) -> None:
    """C2: CreatePartitions answers one row per topic."""
    await broker.topics.create("t", 2)
    await broker.topics.create("full", 2)
    assigns = [CreatePartitionsAssignment(broker_ids=[NODE_ID])]
    request = CreatePartitionsRequest(
        topics=[
            CreatePartitionsTopic(name="t", count=3, assignments=assigns),
            CreatePartitionsTopic(name="full", count=2, assignments=None),
            CreatePartitionsTopic(name="nope", count=2, assignments=None),
        ]
    )
    rows = (await ask(request, version)).results
    assert [(row.name, row.error_code) for row in rows] == [
        ("t", 0),
        ("full", INVALID_PARTITIONS),
        ("nope", UNKNOWN_TOPIC),
    ]
    assert len(broker.topics.get("t").partitions) == 3


async def test_growth_that_cannot_be_is_refused(ask: Ask, broker: Broker) -> None:
    """C12: assignments must fit, and a topic may stand in the request once."""
    await broker.topics.create("t", 1)
    wrong_node = [CreatePartitionsAssignment(broker_ids=[NODE_ID + 1])]
    for asked, code in (
        ([CreatePartitionsTopic(name="t", count=2, assignments=wrong_node)], INVALID_ASSIGNMENT),
        ([CreatePartitionsTopic(name="t", count=3, assignments=wrong_node)], INVALID_ASSIGNMENT),
        ([CreatePartitionsTopic(name="t", count=2, assignments=None)] * 2, INVALID_REQUEST),
    ):
        (row,) = (await ask(CreatePartitionsRequest(topics=asked))).results
        assert row.error_code == code
    asked = [CreatePartitionsTopic(name="t", count=2, assignments=None)]
    (row,) = (await ask(CreatePartitionsRequest(topics=asked, validate_only=True))).results
    assert row.error_code == 0
    assert len(broker.topics.get("t").partitions) == 1


@pytest.mark.parametrize("version", DeleteRecordsRequest.versions)
async def test_records_before_an_offset_are_deleted(ask: Ask, broker: Broker, version: int) -> None:
    """C2: DeleteRecords moves the first offset; -1 means all that is committed."""
    await broker.topics.create("t", 1)
    now_ms = broker.clock.now_ms()
    for value in (b"0", b"1", b"2"):
        await broker.append_records("t", 0, [NewRecord(now_ms, None, value)])
    log = broker.partition("t", 0).log
    for offset, code, low in (
        (2, 0, 2),
        (4, OFFSET_OUT_OF_RANGE, -1),
        (-2, OFFSET_OUT_OF_RANGE, -1),
        (-1, 0, 3),
    ):
        asked = DeleteRecordsTopic(
            name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)]
        )
        (topic_row,) = (await ask(DeleteRecordsRequest(topics=[asked]), version)).topics
        (row,) = topic_row.partitions
        assert (row.error_code, row.low_watermark) == (code, low)
    assert (log.start_offset, log.end_offset) == (3, 3)


async def test_records_that_must_stay_are_not_deleted(ask: Ask, broker: Broker) -> None:
    """C12: compacted and internal topics keep their records."""
    await broker.topics.create("kept", settings={"cleanup.policy": "compact"})
    for name, code in (
        ("kept", POLICY_VIOLATION),
        ("__consumer_offsets", INVALID_TOPIC),
        ("nope", UNKNOWN_TOPIC),
    ):
        asked = DeleteRecordsTopic(
            name=name, partitions=[DeleteRecordsPartition(partition_index=0, offset=-1)]
        )
        (row,) = (await ask(DeleteRecordsRequest(topics=[asked]))).topics[0].partitions
        assert row.error_code == code
