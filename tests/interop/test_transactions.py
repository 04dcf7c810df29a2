"""Transactions of unmodified clients: commit, abort, offsets within, and zombies."""

import gc
from collections.abc import Callable
from contextlib import closing

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AsyncPartition
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonPartition

from tests.interop.conftest import CreateTopic
from tests.interop.program import built, installed, run
from tests.interop.test_java import CLASSES, LIBRARIES, OPTIONS
from tests.waiting import wait_until

ROUNDS = 10
COMMITTED = [b"r%d" % number for number in range(0, ROUNDS, 2)]
TIMEOUT_S = 60.0


@pytest.mark.parametrize("check", ["isolation", "transform", "fencing", "admin"])
def test_the_java_client_gets_exactly_once(bootstrap: str, name: str, check: str) -> None:
    """C2, C3: the second protocol, where every transaction has an epoch of its own."""
    classpath = f"{built(CLASSES)}:{built(LIBRARIES)}/*"
    run([installed("java"), *OPTIONS, "-cp", classpath, "TransactionCheck", bootstrap, name, check])


def reader(bootstrap: str, group: str, isolation: str = "read_committed") -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
        }
    )


def read(bootstrap: str, topic: str, isolation: str = "read_committed") -> list[bytes | None]:
    """Return what librdkafka reads of partition 0 up to its end.

    As in Kafka a commit is decided, and its markers let readers see it a moment later.
    """
    values: list[bytes | None] = []
    with closing(reader(bootstrap, topic, isolation)) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while True:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, f"no end after {values}"
            fault = message.error()
            if fault is not None:
                assert fault.code() == KafkaError._PARTITION_EOF
                return values
            values.append(message.value())


def transactional(bootstrap: str, name: str) -> Producer:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(TIMEOUT_S)
    return producer


def test_librdkafka_shows_committed_records_only(bootstrap: str, create_topic: CreateTopic) -> None:
    """C3: the first protocol, where partitions are added before they are written."""
    topic = create_topic()
    producer = transactional(bootstrap, topic)
    for number in range(ROUNDS):
        producer.begin_transaction()
        producer.produce(topic, b"r%d" % number)
        producer.flush(TIMEOUT_S)
        if number % 2:
            producer.abort_transaction(TIMEOUT_S)
        else:
            producer.commit_transaction(TIMEOUT_S)
    wait_until(lambda: read(bootstrap, topic) == COMMITTED)
    everything = [b"r%d" % number for number in range(ROUNDS)]
    assert read(bootstrap, topic, "read_uncommitted") == everything


def test_librdkafka_moves_a_group_with_the_results(
    bootstrap: str, create_topic: CreateTopic
) -> None:
    """C3: offsets within a transaction count when it is committed, and not when it is aborted."""
    source, target = create_topic(suffix="-in"), create_topic(suffix="-out")
    feeder = Producer({"bootstrap.servers": bootstrap})
    for number in range(3):
        feeder.produce(source, b"i%d" % number)
    assert feeder.flush(TIMEOUT_S) == 0
    producer = transactional(bootstrap, target)
    with closing(reader(bootstrap, source)) as consumer:
        consumer.subscribe([source])
        place = TopicPartition(source, 0)
        for end in (producer.abort_transaction, producer.commit_transaction):
            message = None
            while message is None or message.error() is not None:
                message = consumer.poll(TIMEOUT_S)
            producer.begin_transaction()
            producer.produce(target, message.value())
            offset = message.offset()
            assert offset is not None
            producer.send_offsets_to_transaction(
                [TopicPartition(source, 0, offset + 1)],
                consumer.consumer_group_metadata(),
                TIMEOUT_S,
            )
            end(TIMEOUT_S)
        (committed,) = consumer.committed([place], TIMEOUT_S)
        assert committed.offset == 2
    wait_until(lambda: read(bootstrap, target) == [b"i1"])


def test_librdkafka_is_fenced_by_its_successor(bootstrap: str, create_topic: CreateTopic) -> None:
    """C3: a zombie can neither write nor commit, and what it wrote is never seen."""
    topic = create_topic()
    zombie = transactional(bootstrap, topic)
    zombie.begin_transaction()
    zombie.produce(topic, b"zombie")
    assert zombie.flush(TIMEOUT_S) == 0
    heir = transactional(bootstrap, topic)
    with pytest.raises(KafkaException) as refused:
        zombie.commit_transaction(TIMEOUT_S)
    assert refused.value.args[0].code() == KafkaError._FENCED
    heir.begin_transaction()
    heir.produce(topic, b"heir")
    heir.commit_transaction(TIMEOUT_S)
    wait_until(lambda: read(bootstrap, topic) == [b"heir"])


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_kafka_python_shows_committed_records_only(
    bootstrap: str, create_topic: CreateTopic
) -> None:
    """C3: flexible versions of the first protocol."""
    topic = create_topic()
    with closing(KafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic)) as producer:
        producer.init_transactions()
        for number in range(ROUNDS):
            producer.begin_transaction()
            producer.send(topic, b"r%d" % number)
            producer.flush()
            ends: list[Callable[[], None]] = [
                producer.commit_transaction,
                producer.abort_transaction,
            ]
            ends[number % 2]()
    with closing(
        KafkaConsumer(
            bootstrap_servers=bootstrap,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            consumer_timeout_ms=int(TIMEOUT_S * 1000),
        )
    ) as consumer:
        consumer.assign([PythonPartition(topic, 0)])
        assert [next(consumer).value for _ in COMMITTED] == COMMITTED
    gc.collect()


async def test_aiokafka_shows_committed_records_only(
    bootstrap: str, create_topic: CreateTopic
) -> None:
    """C3: the oldest versions of the transaction APIs."""
    topic = create_topic()
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic) as producer:
        for number in range(ROUNDS):
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"r%d" % number)
            if number % 2:
                await producer.abort_transaction()
            else:
                await producer.commit_transaction()
    async with AIOKafkaConsumer(
        bootstrap_servers=bootstrap, isolation_level="read_committed"
    ) as consumer:
        place = AsyncPartition(topic, 0)
        consumer.assign([place])
        await consumer.seek_to_beginning(place)
        values = [(await consumer.getone()).value for _ in COMMITTED]
        assert values == COMMITTED
