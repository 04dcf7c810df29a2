"""What other brokers got wrong, one test each (reference: behaviours to get right)."""

import pytest
from kio.schema.errors import ErrorCode

from tests.conftest import StartNode
from tests.interop.conftest import CreateTopic
from tests.wire import (
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DESCRIBE_CONFIGS,
    FIND_COORDINATOR,
    FIRST_TIME_MS,
    INIT_PRODUCER_ID,
    JOIN_GROUP,
    LIST_OFFSETS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    Wire,
    record_batch,
    stored,
)

EARLIEST, LATEST, MAX_TIMESTAMP = -2, -1, -3
TOPIC_RESOURCE = 2


def offset_for(wire: Wire, topic: str, timestamp: int, partition: int = 0) -> tuple[ErrorCode, int]:
    partitions = [{"partition_index": partition, "timestamp": timestamp}]
    topics = [{"name": topic, "partitions": partitions}]
    answer = wire.call(LIST_OFFSETS, 7, replica_id=-1, topics=topics).topics[0].partitions[0]
    return answer.error_code, answer.offset


def find_coordinator(wire: Wire, group: str) -> None:
    """Wait until the broker coordinates the group; Apache Kafka first creates its offsets topic."""
    while wire.call(FIND_COORDINATOR, 2, key=group).error_code is not ErrorCode.none:
        pass
    asked = [{"group_id": group, "topics": None}]
    while wire.call(OFFSET_FETCH, 8, groups=asked).groups[0].error_code is not ErrorCode.none:
        pass


def test_metadata_creates_a_missing_topic_with_the_configured_partitions(
    start_node: StartNode, name: str
) -> None:
    """C1, C7: `num.partitions` counts for topics that a request creates by naming them."""
    node = start_node({"broker.num.partitions": "3"})
    with Wire(node.address) as wire:
        asked = {"topics": [{"name": name}], "allow_auto_topic_creation": True}
        wire.call(METADATA, 12, **asked)
        (topic,) = wire.call(METADATA, 12, **asked).topics
        assert topic.error_code is ErrorCode.none
        assert len(topic.partitions) == 3
        asked = {"topics": [{"name": f"{name}-not"}], "allow_auto_topic_creation": False}
        (other,) = wire.call(METADATA, 12, **asked).topics
        assert other.error_code is ErrorCode.unknown_topic_or_partition


def test_offsets_are_listed_by_time_and_by_their_special_names(
    wire: Wire, create_topic: CreateTopic
) -> None:
    """C6: exactly the first record at or after the time, also inside a batch's range."""
    topic = create_topic()
    for index in (0, 1, 2, 9, 3):
        batch = record_batch([b"a", b"b"], timestamp_ms=FIRST_TIME_MS + index * 1000)
        wire.produce(topic, batch)
    assert offset_for(wire, topic, FIRST_TIME_MS + 1000) == (ErrorCode.none, 2)
    assert offset_for(wire, topic, FIRST_TIME_MS + 1001) == (ErrorCode.none, 4)
    assert offset_for(wire, topic, FIRST_TIME_MS + 9001) == (ErrorCode.none, -1)
    assert offset_for(wire, topic, EARLIEST) == (ErrorCode.none, 0)
    assert offset_for(wire, topic, LATEST) == (ErrorCode.none, 10)
    assert offset_for(wire, topic, MAX_TIMESTAMP) == (ErrorCode.none, 6)


def test_listing_offsets_of_an_unknown_partition_is_an_error_at_once(
    wire: Wire, create_topic: CreateTopic
) -> None:
    """C12: kafka-python waits for ever without it."""
    topic = create_topic()
    error, _ = offset_for(wire, topic, LATEST, partition=5)
    assert error is ErrorCode.unknown_topic_or_partition


def test_commit_metadata_comes_back_unchanged(wire: Wire, create_topic: CreateTopic) -> None:
    """C1: the text that a client stores with an offset, empty and not."""
    topic = create_topic(partitions=2)
    find_coordinator(wire, topic)
    rows = [
        {"partition_index": 0, "committed_offset": 7, "committed_metadata": "näher dran"},
        {"partition_index": 1, "committed_offset": 8, "committed_metadata": None},
    ]
    committed = wire.call(
        OFFSET_COMMIT, 8, group_id=topic, generation_id_or_member_epoch=-1,
        topics=[{"name": topic, "partitions": rows}],
    )  # fmt: skip
    errors = {row.error_code for row in committed.topics[0].partitions}
    assert errors == {ErrorCode.none}
    asked = [{"group_id": topic, "topics": [{"name": topic, "partition_indexes": [0, 1]}]}]
    fetched = wire.call(OFFSET_FETCH, 8, groups=asked).groups[0].topics[0].partitions
    assert [(row.committed_offset, row.metadata) for row in fetched] == [(7, "näher dran"), (8, "")]


@pytest.mark.parametrize("version", [5, 8])
def test_an_unknown_group_has_no_offsets_and_no_error(
    wire: Wire, create_topic: CreateTopic, version: int
) -> None:
    """C12: GROUP_ID_NOT_FOUND here breaks librdkafka."""
    topic = create_topic()
    find_coordinator(wire, topic)
    topics = [{"name": topic, "partition_indexes": [0]}]
    if version >= 8:
        asked = [{"group_id": f"{topic}-never", "topics": topics}]
        answer = wire.call(OFFSET_FETCH, version, groups=asked).groups[0]
    else:
        answer = wire.call(OFFSET_FETCH, version, group_id=f"{topic}-never", topics=topics)
    row = answer.topics[0].partitions[0]
    assert answer.error_code is ErrorCode.none
    assert (row.error_code, row.committed_offset) == (ErrorCode.none, -1)


def test_a_batch_over_the_limit_is_refused(wire: Wire, create_topic: CreateTopic) -> None:
    """C7: max.message.bytes counts the whole batch, and nothing of it is stored."""
    topic = create_topic(max_message_bytes="500")
    refused = wire.produce(topic, record_batch([b"x" * 600]))
    assert refused.error_code is ErrorCode.message_too_large
    assert wire.produce(topic, record_batch([b"x" * 100])).base_offset == 0


def test_a_record_without_a_key_is_refused_by_a_compacted_topic(
    wire: Wire, create_topic: CreateTopic
) -> None:
    """C7, C12: INVALID_RECORD, since compaction could never drop it."""
    topic = create_topic(cleanup_policy="compact")
    refused = wire.produce(topic, record_batch([b"v"], keys=None))
    assert refused.error_code is ErrorCode.invalid_record
    assert wire.produce(topic, record_batch([b"v"])).base_offset == 0


@pytest.mark.parametrize(
    ("setting", "value"), [("retention.ms", "soon"), ("no.such", "1"), ("cleanup.policy", "burn")]
)
def test_a_bad_topic_setting_is_refused(wire: Wire, name: str, setting: str, value: str) -> None:
    """C7, C12: INVALID_CONFIG, and the topic is not created."""
    wanted = {"name": name, "num_partitions": 1, "replication_factor": 1}
    wanted["configs"] = [{"name": setting, "value": value}]
    answer = wire.call(CREATE_TOPICS, 5, topics=[wanted], timeout=10_000)
    assert answer.topics[0].error_code is ErrorCode.invalid_config
    described = wire.call(
        METADATA, 12, topics=[{"name": name}], allow_auto_topic_creation=False
    ).topics[0]
    assert described.error_code is ErrorCode.unknown_topic_or_partition


def test_growing_topics_answers_one_row_each(wire: Wire, create_topic: CreateTopic) -> None:
    """C2: good and bad rows of one request are told apart."""
    grown, shrunk = create_topic(suffix="-a"), create_topic(suffix="-b", partitions=3)
    asked = [
        {"name": grown, "count": 4, "assignments": None},
        {"name": shrunk, "count": 2, "assignments": None},
        {"name": f"{grown}-none", "count": 2, "assignments": None},
    ]
    answer = wire.call(CREATE_PARTITIONS, 2, topics=asked, timeout=10_000)
    assert {row.name: row.error_code for row in answer.results} == {
        grown: ErrorCode.none,
        shrunk: ErrorCode.invalid_partitions,
        f"{grown}-none": ErrorCode.unknown_topic_or_partition,
    }


def test_describing_a_topic_lists_all_settings_with_their_sources(
    wire: Wire, create_topic: CreateTopic
) -> None:
    """C7: defaults too; 1 is the topic's own setting, 5 a default."""
    topic = create_topic(retention_ms="1234")
    asked = [{"resource_type": TOPIC_RESOURCE, "resource_name": topic, "configuration_keys": None}]
    answer = wire.call(DESCRIBE_CONFIGS, 4, resources=asked, include_synonyms=True)
    found = {row.name: row for row in answer.results[0].configs}
    assert {"cleanup.policy", "segment.bytes", "max.message.bytes", "compression.type"} <= set(
        found
    )
    assert (found["retention.ms"].value, found["retention.ms"].config_source) == ("1234", 1)
    assert (found["cleanup.policy"].value, found["cleanup.policy"].config_source) == ("delete", 5)


def test_a_transaction_time_out_over_the_limit_is_refused(wire: Wire, name: str) -> None:
    """C12: INVALID_TRANSACTION_TIMEOUT when a producer asks for more than the node allows."""
    find_coordinator(wire, name)
    asked = {"transactional_id": name, "transaction_timeout": 1_000_000_000}
    asked |= {"producer_id": -1, "producer_epoch": -1}
    error = wire.call(INIT_PRODUCER_ID, 4, **asked).error_code
    assert error is ErrorCode.invalid_transaction_timeout


def test_short_sessions_can_be_allowed(start_node: StartNode, name: str) -> None:
    """C4: group.min.session.timeout.ms is a setting; below it is INVALID_SESSION_TIMEOUT."""
    node = start_node({"broker.group.min.session.timeout.ms": "100"})
    joining = {
        "group_id": name,
        "rebalance_timeout": 1000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }
    with Wire(node.address) as wire:
        refused = wire.call(JOIN_GROUP, 5, session_timeout=99, **joining)
        assert refused.error_code is ErrorCode.invalid_session_timeout
        accepted = wire.call(JOIN_GROUP, 5, session_timeout=100, **joining)
        assert accepted.error_code is ErrorCode.member_id_required


def test_a_retried_batch_is_stored_once(wire: Wire, create_topic: CreateTopic) -> None:
    """C3: the duplicate is answered with the first offset; a gap is refused."""
    topic = create_topic()
    producer = wire.call(
        INIT_PRODUCER_ID, 4, transaction_timeout=10_000, producer_id=-1, producer_epoch=-1
    )

    def batch(sequence: int, value: bytes) -> bytes:
        return record_batch(
            [value],
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=sequence,
        )

    assert wire.produce(topic, batch(0, b"a")).base_offset == 0
    assert wire.produce(topic, batch(1, b"b")).base_offset == 1
    again = wire.produce(topic, batch(0, b"a"))
    assert (again.error_code, again.base_offset) == (ErrorCode.none, 0)
    gap = wire.produce(topic, batch(5, b"f"))
    assert gap.error_code is ErrorCode.out_of_order_sequence_number
    assert stored(wire.fetch(topic, 0).records) == [(0, b"a"), (1, b"b")]
