"""kafka-python, unmodified, against the broker."""

import gc
from collections.abc import Iterator
from contextlib import closing

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import MessageSizeTooLargeError

from tests.interop.conftest import CreateTopic
from tests.wire import FIRST_TIME_MS

# The client leaves the socket pair that wakes it up to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


@pytest.fixture(autouse=True)
def collect_sockets() -> Iterator[None]:
    """Let the client's sockets go while the warning about them is still ignored."""
    yield
    gc.collect()


@pytest.fixture
def producer(bootstrap: str) -> Iterator[KafkaProducer]:
    with closing(KafkaProducer(bootstrap_servers=bootstrap, linger_ms=5)) as producer:
        yield producer


def consumer_of(bootstrap: str, *topics: str, **settings: object) -> "closing[KafkaConsumer]":
    return closing(
        KafkaConsumer(
            *topics,
            bootstrap_servers=bootstrap,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            consumer_timeout_ms=60_000,
            **settings,
        )
    )


@pytest.mark.parametrize("compression", [None, "gzip", "snappy", "lz4", "zstd"])
def test_records_come_back_unchanged_with_every_compression(
    bootstrap: str, create_topic: CreateTopic, compression: str | None
) -> None:
    """C1, C3, C5: an idempotent producer and an assigned consumer."""
    topic = create_topic()
    with closing(
        KafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=compression,
            acks="all",
            enable_idempotence=True,
        )
    ) as producer:
        sent = [
            producer.send(
                topic,
                key=None if index % 5 == 0 else b"key",
                value=None if index % 5 == 1 else b"value-%d" % index,
                headers=[("index", b"%d" % index)],
                timestamp_ms=FIRST_TIME_MS + index,
            )
            for index in range(300)
        ]
        assert [future.get(60).offset for future in sent] == list(range(300))
    with consumer_of(bootstrap) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        for index in range(300):
            record = next(consumer)
            assert record.offset == index
            assert record.key == (None if index % 5 == 0 else b"key")
            assert record.value == (None if index % 5 == 1 else b"value-%d" % index)
            assert list(record.headers) == [("index", b"%d" % index)]
            assert record.timestamp == FIRST_TIME_MS + index


def test_a_group_with_a_short_session_resumes(
    bootstrap: str, producer: KafkaProducer, create_topic: CreateTopic
) -> None:
    """A5, C1: join, commit, leave, and join again."""
    topic = create_topic(partitions=2)
    group = {"group_id": f"{topic}-group", "session_timeout_ms": 15_000}
    for index in range(20):
        producer.send(topic, b"a%d" % index, partition=index % 2)
    producer.flush()
    with consumer_of(bootstrap, topic, **group) as consumer:
        assert {next(consumer).value for _ in range(20)} == {b"a%d" % index for index in range(20)}
        consumer.commit()
    producer.send(topic, b"later", partition=1).get(60)
    with consumer_of(bootstrap, topic, **group) as consumer:
        assert next(consumer).value == b"later"


def test_offsets_are_found_by_time(
    bootstrap: str, producer: KafkaProducer, create_topic: CreateTopic
) -> None:
    """C6: offsets_for_times, beginning and end."""
    topic = create_topic()
    partition = TopicPartition(topic, 0)
    for index in range(30):
        producer.send(topic, b"v", timestamp_ms=FIRST_TIME_MS + index * 1000)
    producer.flush()
    with consumer_of(bootstrap) as consumer:
        found = consumer.offsets_for_times({partition: FIRST_TIME_MS + 12_001})[partition]
        assert (found.offset, found.timestamp) == (13, FIRST_TIME_MS + 13_000)
        assert consumer.offsets_for_times({partition: FIRST_TIME_MS + 60_000})[partition] is None
        assert consumer.beginning_offsets([partition]) == {partition: 0}
        assert consumer.end_offsets([partition]) == {partition: 30}


def test_a_message_over_the_topics_limit_is_refused(
    producer: KafkaProducer, create_topic: CreateTopic
) -> None:
    """C7, C12: MESSAGE_TOO_LARGE reaches the application as that error."""
    topic = create_topic(max_message_bytes="2000")
    with pytest.raises(MessageSizeTooLargeError):
        producer.send(topic, b"x" * 5000).get(60)
