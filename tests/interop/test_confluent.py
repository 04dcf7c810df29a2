"""confluent-kafka (librdkafka), unmodified, against the broker."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from tests.interop.conftest import CreateTopic
from tests.wire import FIRST_TIME_MS

Headers = list[tuple[str, bytes | None]]

DEADLINE_S = 60.0


def produce(bootstrap: str, messages: list[dict[str, Any]], **settings: Any) -> list[Message]:
    """Send all messages with an idempotent producer and return the delivery reports, in order."""
    reports: list[Message] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        reports.append(message)

    producer = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, **settings}
    )
    for message in messages:
        producer.produce(**message, on_delivery=on_delivery)
    assert producer.flush(DEADLINE_S) == 0
    return reports


@contextmanager
def consumer_of(bootstrap: str, group: str = "none", **settings: Any) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **settings,
        }
    )
    try:
        yield consumer
    finally:
        consumer.close()


def read(consumer: Consumer, count: int) -> list[Message]:
    """Poll until `count` messages came; fail on an error or when it takes too long."""
    messages: list[Message] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(messages) < count:
        assert time.monotonic() < deadline, f"{len(messages)} of {count} messages came"
        for message in consumer.consume(count - len(messages), timeout=0.5):
            assert message.error() is None, message.error()
            messages.append(message)
    return messages


def read_partition(bootstrap: str, topic: str, count: int, partition: int = 0) -> list[Message]:
    with consumer_of(bootstrap) as consumer:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        return read(consumer, count)


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_come_back_unchanged_and_in_order_with_every_compression(
    bootstrap: str, create_topic: CreateTopic, compression: str
) -> None:
    """C1, C3, C5: an idempotent producer's keys, values, headers and times survive."""
    topic = create_topic()
    headers: Headers = [("first", b"1"), ("first", b"again"), ("empty", b""), ("null", None)]
    sent: list[dict[str, Any]] = [
        {
            "topic": topic,
            "key": None if index % 7 == 0 else f"key-{index}",
            "value": None if index % 11 == 0 else f"value-{index}-" + "abc" * 30,
            "headers": headers,
            "timestamp": FIRST_TIME_MS + index,
        }
        for index in range(1000)
    ]
    reports = produce(bootstrap, sent, **{"compression.type": compression})
    assert [report.offset() for report in reports] == list(range(1000))
    for index, message in enumerate(read_partition(bootstrap, topic, 1000)):
        key, value = sent[index]["key"], sent[index]["value"]
        assert message.offset() == index
        assert message.key() == (key.encode() if key else None)
        assert message.value() == (value.encode() if value else None)
        assert message.headers() == headers
        assert message.timestamp() == (TIMESTAMP_CREATE_TIME, FIRST_TIME_MS + index)


def test_a_message_of_one_megabyte_passes_and_a_larger_one_is_refused(
    bootstrap: str, create_topic: CreateTopic
) -> None:
    """C7, C12: max.message.bytes is enforced with MESSAGE_TOO_LARGE, and the rest goes on."""
    topic = create_topic()
    large = bytes(range(256)) * 4000
    limits = {"message.max.bytes": 4_000_000}
    produce(bootstrap, [{"topic": topic, "value": large}], **limits)
    refused: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": bootstrap, **limits})
    producer.produce(topic, b"x" * 2_000_000, on_delivery=lambda error, _: refused.append(error))
    producer.flush(DEADLINE_S)
    assert [error.code() for error in refused if error] == [KafkaError.MSG_SIZE_TOO_LARGE]
    produce(bootstrap, [{"topic": topic, "value": b"small"}])
    assert [message.value() for message in read_partition(bootstrap, topic, 2)] == [large, b"small"]


def test_a_consumer_seeks_to_any_offset(bootstrap: str, create_topic: CreateTopic) -> None:
    """C6: also into the middle of a batch, to the beginning and to the end."""
    topic = create_topic()
    produce(bootstrap, [{"topic": topic, "value": str(index)} for index in range(100)])
    with consumer_of(bootstrap) as consumer:
        consumer.assign([TopicPartition(topic, 0, 37)])
        assert read(consumer, 1)[0].offset() == 37
        consumer.seek(TopicPartition(topic, 0, 99))
        assert read(consumer, 1)[0].offset() == 99
        consumer.seek(TopicPartition(topic, 0, OFFSET_BEGINNING))
        assert read(consumer, 1)[0].offset() == 0
        consumer.seek(TopicPartition(topic, 0, OFFSET_END))
        # The client asks where the end is at a time of its own; what came before is not shown.
        while (message := consumer.poll(0.2)) is None:
            produce(bootstrap, [{"topic": topic, "value": "new"}])
        assert message.value() == b"new"


def test_an_offset_out_of_range_is_reset_or_reported(
    bootstrap: str, create_topic: CreateTopic
) -> None:
    """C12: OFFSET_OUT_OF_RANGE makes the client apply its reset policy."""
    topic = create_topic()
    produce(bootstrap, [{"topic": topic, "value": str(index)} for index in range(10)])
    with consumer_of(bootstrap) as consumer:
        consumer.assign([TopicPartition(topic, 0, 5000)])
        assert read(consumer, 1)[0].offset() == 0
    with consumer_of(bootstrap, **{"auto.offset.reset": "error"}) as consumer:
        consumer.assign([TopicPartition(topic, 0, 5000)])
        message = consumer.poll(DEADLINE_S)
        assert message is not None
        error = message.error()
        assert error is not None
        assert error.code() == KafkaError._AUTO_OFFSET_RESET


def test_offsets_are_found_by_time(bootstrap: str, create_topic: CreateTopic) -> None:
    """C6: the first record at or after the time; none for the future; watermarks."""
    topic = create_topic()
    times = [FIRST_TIME_MS + index * 1000 for index in range(50)]
    produce(bootstrap, [{"topic": topic, "value": "v", "timestamp": time_ms} for time_ms in times])
    with consumer_of(bootstrap) as consumer:

        def found(time_ms: int) -> int:
            asked = [TopicPartition(topic, 0, time_ms)]
            return int(consumer.offsets_for_times(asked, timeout=60)[0].offset)

        assert found(times[20]) == 20
        assert found(times[20] + 1) == 21
        assert found(0) == 0
        assert found(times[49] + 1) == OFFSET_END
        assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=60) == (0, 50)


def test_append_time_replaces_the_producers_time(bootstrap: str, create_topic: CreateTopic) -> None:
    """C7: message.timestamp.type=LogAppendTime."""
    topic = create_topic(message_timestamp_type="LogAppendTime")
    before_ms = time.time_ns() // 1_000_000
    produce(bootstrap, [{"topic": topic, "value": "v", "timestamp": FIRST_TIME_MS}])
    kind, time_ms = read_partition(bootstrap, topic, 1)[0].timestamp()
    assert kind == TIMESTAMP_LOG_APPEND_TIME
    assert before_ms - 1000 <= time_ms <= time.time_ns() // 1_000_000 + 1000


def test_producing_to_an_unknown_topic_creates_it(bootstrap: str, name: str) -> None:
    """C1: auto-creation by a producer's metadata request."""
    produce(bootstrap, [{"topic": name, "value": "v"}], **{"allow.auto.create.topics": True})
    assert read_partition(bootstrap, name, 1)[0].value() == b"v"


def test_a_consumer_does_not_create_topics_by_asking(
    bootstrap: str, admin: AdminClient, name: str
) -> None:
    """C12: UNKNOWN_TOPIC_OR_PART is answered when the client forbids creation."""
    with consumer_of(bootstrap, group=name) as consumer:
        consumer.subscribe([name])
        message = consumer.poll(DEADLINE_S)
        assert message is not None
        error = message.error()
        assert error is not None
        assert error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert name not in admin.list_topics(timeout=60).topics


def test_a_pattern_subscribes_to_topics_that_are_created_later(
    bootstrap: str, create_topic: CreateTopic, name: str
) -> None:
    """C1: regular expressions work on the full list of topics."""
    first = create_topic(suffix="-a")
    settings = {"topic.metadata.refresh.interval.ms": 200, "session.timeout.ms": 10000}
    with consumer_of(bootstrap, group=name, **settings) as consumer:
        consumer.subscribe([f"^{name}-.*"])
        produce(bootstrap, [{"topic": first, "value": "1"}])
        assert read(consumer, 1)[0].topic() == first
        consumer.commit(asynchronous=False)
        second = create_topic(suffix="-b")
        produce(bootstrap, [{"topic": second, "value": "2"}])
        assert read(consumer, 1)[0].topic() == second


def test_a_group_resumes_where_it_committed(
    bootstrap: str, create_topic: CreateTopic, name: str
) -> None:
    """A5: a consumer that was away gets what came meanwhile, and nothing twice."""
    topic = create_topic(partitions=3)
    first = [{"topic": topic, "partition": index % 3, "value": f"a{index}"} for index in range(30)]
    later = [{"topic": topic, "partition": index % 3, "value": f"b{index}"} for index in range(30)]
    produce(bootstrap, first)
    with consumer_of(bootstrap, group=name) as consumer:
        consumer.subscribe([topic])
        assert {message.value() for message in read(consumer, 30)} == {
            f"a{index}".encode() for index in range(30)
        }
        consumer.commit(asynchronous=False)
    produce(bootstrap, later)
    with consumer_of(bootstrap, group=name) as consumer:
        consumer.subscribe([topic])
        assert {message.value() for message in read(consumer, 30)} == {
            f"b{index}".encode() for index in range(30)
        }
        assert consumer.poll(0.3) is None


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_two_members_share_the_partitions(
    bootstrap: str, create_topic: CreateTopic, name: str, strategy: str
) -> None:
    """C1: eager and cooperative groups give every partition to exactly one member."""
    topic = create_topic(partitions=4)
    settings = {"partition.assignment.strategy": strategy, "session.timeout.ms": 10000}
    with (
        consumer_of(bootstrap, group=name, **settings) as one,
        consumer_of(bootstrap, group=name, **settings) as two,
    ):
        one.subscribe([topic])
        two.subscribe([topic])

        def is_shared() -> bool:
            for consumer in (one, two):
                message = consumer.poll(0.1)
                assert message is None or message.error() is None
            parts = [{part.partition for part in consumer.assignment()} for consumer in (one, two)]
            return len(parts[0]) == len(parts[1]) == 2 and parts[0] | parts[1] == {0, 1, 2, 3}

        wait_until(is_shared)


def test_the_node_tells_its_cluster_id_and_an_address_that_works(
    bootstrap: str, admin: AdminClient
) -> None:
    """C1: Metadata names the node by the address that clients reach it at."""
    metadata: Any = admin.list_topics(timeout=60)
    assert metadata.cluster_id
    assert [f"{node.host}:{node.port}" for node in metadata.brokers.values()] == [bootstrap]
    assert metadata.controller_id in metadata.brokers


@pytest.mark.parametrize("settings", [{"api.version.request": False}, {"acks": 0}, {"acks": 1}])
def test_older_ways_of_producing_work(
    bootstrap: str, create_topic: CreateTopic, settings: dict[str, Any]
) -> None:
    """C1, C12: a client that asks for no versions, and acknowledgements of every kind."""
    topic = create_topic()
    messages = [{"topic": topic, "value": str(index)} for index in range(200)]
    produce(bootstrap, messages, **{"enable.idempotence": False, **settings})
    values = [message.value() for message in read_partition(bootstrap, topic, 200)]
    assert values == [str(index).encode() for index in range(200)]


def test_consuming_an_unknown_partition_is_an_error(
    bootstrap: str, create_topic: CreateTopic
) -> None:
    """C12: ListOffsets on a partition that is not there answers at once."""
    topic = create_topic()
    with consumer_of(bootstrap) as consumer, pytest.raises(KafkaException) as raised:
        consumer.get_watermark_offsets(TopicPartition(topic, 9), timeout=60)
    assert raised.value.args[0].code() in {
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    }


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline, "it did not happen in time"
