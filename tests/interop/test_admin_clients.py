"""The admin clients of librdkafka and kafka-python, unmodified, against the broker."""

from collections.abc import Iterator
from typing import Any

import kafka.errors
import pytest
from confluent_kafka import (
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
)
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewPartitions, NewTopic
from kafka import KafkaAdminClient
from kio.schema.errors import ErrorCode

from tests.interop.conftest import CreateTopic
from tests.running_node import RunningNode
from tests.wire import Wire

DEADLINE_S = 60
DEFAULT, OWN = ConfigSource.DEFAULT_CONFIG.value, ConfigSource.DYNAMIC_TOPIC_CONFIG.value
Entries = dict[str, Any]  # the client's own annotations of an entry are not what it returns


@pytest.fixture
def python_admin(bootstrap: str) -> Iterator[Any]:
    """Give kafka-python's admin client."""
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()


def result(futures: dict[Any, Any]) -> Any:
    """Return what the only future of an admin call brings, or raise its error."""
    (future,) = futures.values()
    return future.result(DEADLINE_S)


def refused(futures: dict[Any, Any]) -> int:
    """Return the code with which the only future of an admin call fails."""
    with pytest.raises(KafkaException) as caught:
        result(futures)
    return int(caught.value.args[0].code())


def configs(admin: AdminClient, kind: Any, name: str) -> Entries:
    found: Entries = result(admin.describe_configs([ConfigResource(kind, name)]))
    return found


def change(kind: Any, name: str, *entries: ConfigEntry) -> ConfigResource:
    return ConfigResource(kind, name, incremental_configs=list(entries))


def test_librdkafka_creates_describes_grows_and_deletes_a_topic(
    admin: AdminClient, name: str
) -> None:
    """C1: CreateTopics, CreatePartitions, DeleteTopics with librdkafka."""
    settings = {"retention.ms": "86400000", "cleanup.policy": "compact,delete"}
    result(admin.create_topics([NewTopic(name, 2, 1, config=settings)]))
    result(admin.create_partitions([NewPartitions(name, 4)]))
    described = result(admin.describe_topics(TopicCollection([name])))
    while len(described.partitions) < 4:  # Apache Kafka answers before it tells everybody
        described = result(admin.describe_topics(TopicCollection([name])))
    assert [partition.id for partition in described.partitions] == [0, 1, 2, 3]
    assert all(len(partition.replicas) == 1 for partition in described.partitions)
    assert not described.is_internal
    result(admin.delete_topics([name]))
    while name in admin.list_topics(timeout=DEADLINE_S).topics:
        pass


@pytest.mark.parametrize(
    ("partitions", "replicas", "settings", "code"),
    [
        (0, 1, {}, KafkaError.INVALID_PARTITIONS),
        (1, 9, {}, KafkaError.INVALID_REPLICATION_FACTOR),
        (1, 1, {"no.such.setting": "1"}, KafkaError.INVALID_CONFIG),
        (1, 1, {"retention.ms": "soon"}, KafkaError.INVALID_CONFIG),
        (1, 1, {"segment.bytes": "5"}, KafkaError.INVALID_CONFIG),
        (1, 1, {"cleanup.policy": "shred"}, KafkaError.INVALID_CONFIG),
    ],
)
def test_librdkafka_is_refused_a_topic_that_cannot_be(
    admin: AdminClient,
    name: str,
    partitions: int,
    replicas: int,
    settings: dict[str, str],
    code: int,
) -> None:
    """C7: unknown or invalid settings are refused with Kafka's error."""
    wanted = NewTopic(name, partitions, replicas, config=settings)
    assert refused(admin.create_topics([wanted])) == code
    assert refused(admin.create_topics([wanted], validate_only=True)) == code


def test_names_and_sizes_that_cannot_be_have_kafkas_codes(
    admin: AdminClient, create_topic: CreateTopic
) -> None:
    """C12: the codes of Kafka's specification."""
    topic = create_topic(partitions=2, suffix=".x_y")
    again = NewTopic(topic, 1, 1)
    assert refused(admin.create_topics([again])) == KafkaError.TOPIC_ALREADY_EXISTS
    collides = NewTopic(topic.replace("_", "."), 1, 1)
    assert refused(admin.create_topics([collides])) == KafkaError.TOPIC_EXCEPTION
    slashed = NewTopic(f"{topic}/z", 1, 1)
    assert refused(admin.create_topics([slashed])) == KafkaError.TOPIC_EXCEPTION
    fewer = NewPartitions(topic, 1)
    assert refused(admin.create_partitions([fewer])) == KafkaError.INVALID_PARTITIONS
    unknown = admin.delete_topics([f"{topic}-nope"])
    assert refused(unknown) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_librdkafka_changes_settings_of_a_topic(
    admin: AdminClient, create_topic: CreateTopic
) -> None:
    """C2: IncrementalAlterConfigs, C7: sources."""
    topic = create_topic(retention_ms="1000")
    resource = change(
        ResourceType.TOPIC,
        topic,
        ConfigEntry("retention.ms", None, incremental_operation=AlterConfigOpType.DELETE),
        ConfigEntry("max.message.bytes", "5000", incremental_operation=AlterConfigOpType.SET),
        ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND),
    )
    result(admin.incremental_alter_configs([resource]))
    shown = configs(admin, ResourceType.TOPIC, topic)
    values = {key: (entry.value, entry.source) for key, entry in shown.items()}
    assert values["retention.ms"] == ("604800000", DEFAULT)
    assert values["max.message.bytes"] == ("5000", OWN)
    assert values["cleanup.policy"] == ("delete,compact", OWN)
    for wrong in ("-9", "many"):
        entry = ConfigEntry("retention.ms", wrong, incremental_operation=AlterConfigOpType.SET)
        bad = change(ResourceType.TOPIC, topic, entry)
        assert refused(admin.incremental_alter_configs([bad])) == KafkaError.INVALID_CONFIG


def test_a_lowered_size_limit_holds_for_the_next_message(
    bootstrap: str, admin: AdminClient, create_topic: CreateTopic
) -> None:
    """C7: a changed setting is in force at once."""
    topic = create_topic()
    entry = ConfigEntry("max.message.bytes", "500", incremental_operation=AlterConfigOpType.SET)
    result(admin.incremental_alter_configs([change(ResourceType.TOPIC, topic, entry)]))
    producer = Producer({"bootstrap.servers": bootstrap})
    codes = []
    for size in (100, 1000):
        producer.produce(
            topic, b"x" * size, on_delivery=lambda error, _: codes.append(error and error.code())
        )
        assert producer.flush(DEADLINE_S) == 0
    assert codes == [None, KafkaError.MSG_SIZE_TOO_LARGE]


def test_a_topic_with_one_replica_waits_for_no_second_one(
    bootstrap: str, create_topic: CreateTopic
) -> None:
    """C7: min.insync.replicas asks for no more replicas than the topic has."""
    topic = create_topic(min_insync_replicas="2")
    codes = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "retries": 0})
    producer.produce(topic, b"x", on_delivery=lambda error, _: codes.append(error and error.code()))
    assert producer.flush(DEADLINE_S) == 0
    assert codes == [None]


def test_librdkafka_reads_the_nodes_settings_and_changes_a_default(admin: AdminClient) -> None:
    """C1: DescribeConfigs of a broker; C2: dynamic settings."""
    (node,) = result({0: admin.describe_cluster()}).nodes
    shown = configs(admin, ResourceType.BROKER, str(node.id))
    assert shown["num.partitions"].is_read_only
    assert {"log.dirs", "log.retention.ms", "auto.create.topics.enable"} <= set(shown)
    entry = ConfigEntry("num.partitions", "3", incremental_operation=AlterConfigOpType.SET)
    fixed = change(ResourceType.BROKER, str(node.id), entry)
    code = refused(admin.incremental_alter_configs([fixed]))
    assert code in (KafkaError.INVALID_CONFIG, KafkaError.INVALID_REQUEST)


def test_librdkafka_deletes_records(
    bootstrap: str, admin: AdminClient, create_topic: CreateTopic
) -> None:
    """C2: DeleteRecords up to an offset, and to the end."""
    topic = create_topic()
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(10):
        producer.produce(topic, str(number).encode())
    assert producer.flush(DEADLINE_S) == 0
    deleted = result(admin.delete_records([TopicPartition(topic, 0, 4)]))
    assert deleted.low_watermark == 4
    beyond = admin.delete_records([TopicPartition(topic, 0, 11)])
    assert refused(beyond) == KafkaError.OFFSET_OUT_OF_RANGE
    deleted = result(admin.delete_records([TopicPartition(topic, 0, -1)]))
    assert deleted.low_watermark == 10


def test_a_fetch_that_waits_is_told_when_its_topic_is_deleted(
    admin: AdminClient, create_topic: CreateTopic, wire: Wire
) -> None:
    """C12: the answer comes at the deletion, not at the end of the wait."""
    topic = create_topic()
    waiting = wire.send_fetch(topic, 0, max_wait=60_000)
    result(admin.delete_topics([topic]))
    # Either makes the client look for the topic again.
    answers = (ErrorCode.not_leader_or_follower, ErrorCode.unknown_topic_or_partition)
    assert wire.receive_fetch(waiting).error_code in answers


def test_kafka_python_manages_a_topic(python_admin: Any, name: str) -> None:
    """C1: the newest versions of the admin APIs, as kafka-python sends them."""
    settings = {"segment.bytes": "2097152"}
    wanted = {name: {"num_partitions": 2, "replication_factor": 1, "configs": settings}}
    python_admin.create_topics(wanted)
    with pytest.raises(kafka.errors.TopicAlreadyExistsError):
        python_admin.create_topics(wanted)
    python_admin.create_partitions({name: 3})
    (described,) = python_admin.describe_topics([name])
    assert [p["partition_index"] for p in described["partitions"]] == [0, 1, 2]
    (by_cursor,) = python_admin.describe_topic_partitions([name])["topics"]
    assert len(by_cursor["partitions"]) == 3
    resource = kafka.admin.ConfigResource("TOPIC", name, {"retention.ms": "5000"})
    python_admin.alter_configs([resource])
    asked = kafka.admin.ConfigResource("TOPIC", name)
    shown = python_admin.describe_configs([asked], config_filter="all")["topic"][name]
    assert shown["retention.ms"]["value"] == "5000"
    assert shown["segment.bytes"]["value"] == "2097152"
    assert shown["max.message.bytes"]["value"] == "1048588"
    python_admin.delete_topics([name])
    assert name not in python_admin.list_topics()


def test_kafka_python_looks_at_the_cluster(
    python_admin: Any, bootstrap: str, create_topic: CreateTopic
) -> None:
    """C2: DescribeCluster, DescribeLogDirs, DescribeProducers, ListConfigResources."""
    topic = create_topic(partitions=2)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    producer.produce(topic, b"x" * 500, partition=1)
    assert producer.flush(DEADLINE_S) == 0
    cluster = python_admin.describe_cluster()
    assert len(cluster["brokers"]) == 1
    (node,) = python_admin.describe_log_dirs([topic])
    sizes = {
        partition["partition_index"]: partition["partition_size"]
        for directory in node["log_dirs"]
        for row in directory["topics"]
        for partition in row["partitions"]
    }
    assert sizes[0] == 0
    assert sizes[1] > 500
    written = kafka.TopicPartition(topic, 1)
    (states,) = python_admin.describe_producers([written]).values()
    (producer_state,) = states.active_producers
    assert producer_state.last_sequence == 0
    assert topic in python_admin.list_config_resources(["TOPIC"])["topic"]


def test_every_acknowledged_change_survives_kill_9(own_node: RunningNode) -> None:
    """C1: topics, partitions, settings and deletions are on disk before they are answered."""
    admin = AdminClient({"bootstrap.servers": own_node.bootstrap})
    names = [f"t{number}" for number in range(12)]
    for number, topic in enumerate(names):
        settings = {"retention.ms": str(1000 + number)}
        result(admin.create_topics([NewTopic(topic, 1 + number % 3, 1, config=settings)]))
    result(admin.delete_topics([names[0]]))
    result(admin.create_partitions([NewPartitions(names[1], 7)]))
    ids = {topic: topic_id(admin, topic) for topic in names[1:]}
    result(admin.create_topics([NewTopic(names[0], 5, 1)]))
    own_node.restart()
    again = AdminClient({"bootstrap.servers": own_node.bootstrap})
    topics = again.list_topics(timeout=DEADLINE_S).topics
    assert {name: len(topics[name].partitions) for name in names} == {
        **{name: 1 + number % 3 for number, name in enumerate(names)},
        names[0]: 5,
        names[1]: 7,
    }
    assert {topic: topic_id(again, topic) for topic in names[1:]} == ids
    assert configs(again, ResourceType.TOPIC, names[5])["retention.ms"].value == "1005"
    assert configs(again, ResourceType.TOPIC, names[0])["retention.ms"].value == "604800000"


def topic_id(admin: AdminClient, topic: str) -> str:
    return str(result(admin.describe_topics(TopicCollection([topic]))).topic_id)
