"""Share groups with unmodified share consumers: Java 4.3 and librdkafka."""

import threading
import time
from collections.abc import Callable

import pytest
from confluent_kafka import AcknowledgeType, Message, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from tests.interop.conftest import CreateTopic
from tests.interop.program import built, installed, run
from tests.interop.test_java import CLASSES, LIBRARIES, OPTIONS

DEADLINE_S = 60.0


@pytest.mark.parametrize(
    "check", ["implicit", "explicit", "together", "timeout", "renew", "close", "operator"]
)
def test_the_java_share_consumer_finds_what_it_expects(
    bootstrap: str, name: str, check: str
) -> None:
    """C4, A3, D8: KafkaShareConsumer and the admin client for share groups."""
    classpath = f"{built(CLASSES)}:{built(LIBRARIES)}/*"
    run([installed("java"), *OPTIONS, "-cp", classpath, "ShareCheck", bootstrap, name, check])


def begin_at_the_beginning(admin: AdminClient, group: str) -> None:
    entry = ConfigEntry(
        "share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[entry])
    for done in admin.incremental_alter_configs([resource]).values():
        done.result()


def produce(bootstrap: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(DEADLINE_S) == 0


def consume(consumer: ShareConsumer, wanted: Callable[[Message], bool]) -> None:
    """Poll until a record is the last one wanted."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        for message in consumer.poll(0.2):
            assert message.error() is None
            if wanted(message):
                return
    raise AssertionError("the records did not come")


def test_librdkafka_settles_each_record_as_it_says(
    bootstrap: str, admin: AdminClient, create_topic: CreateTopic
) -> None:
    """C4: accept, release and reject; what is released comes again."""
    topic = create_topic()
    begin_at_the_beginning(admin, topic)
    produce(bootstrap, topic, 9)
    seen: list[int] = []
    kinds = [AcknowledgeType.ACCEPT, AcknowledgeType.REJECT, AcknowledgeType.RELEASE]
    with ShareConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": topic,
            "share.acknowledgement.mode": "explicit",
        }
    ) as consumer:
        consumer.subscribe([topic])

        def settled(message: Message) -> bool:
            number = int(message.value() or b"")
            kind = kinds[number % 3] if number not in seen else AcknowledgeType.ACCEPT
            seen.append(number)
            consumer.acknowledge(message, kind)
            return len(seen) == 12

        consume(consumer, settled)
        assert all(error is None for error in consumer.commit_sync().values())
        assert sorted(seen) == sorted([*range(9), 2, 5, 8])
        assert not list(consumer.poll(0.5))


def test_librdkafka_consumers_share_one_partition(
    bootstrap: str, admin: AdminClient, create_topic: CreateTopic
) -> None:
    """A3: every record is processed by one of them."""
    topic = create_topic()
    begin_at_the_beginning(admin, topic)
    sent = 0
    seen: list[list[int]] = [[], [], []]
    done = threading.Event()

    def work(numbers: list[int]) -> None:
        config = {"bootstrap.servers": bootstrap, "group.id": topic, "max.poll.records": 20}
        with ShareConsumer(config) as consumer:
            consumer.subscribe([topic])
            while not done.is_set():
                numbers.extend(int(message.value() or b"") for message in consumer.poll(0.1))

    workers = [threading.Thread(target=work, args=(numbers,)) for numbers in seen]
    for worker in workers:
        worker.start()
    deadline = time.monotonic() + DEADLINE_S
    # Consumers join one after the other; who is first may take all that is there by then.
    while sent < 600 or (sum(map(bool, seen)) < 2 and time.monotonic() < deadline):
        produce(bootstrap, topic, 20)
        sent += 20
    while sum(map(len, seen)) < sent and time.monotonic() < deadline:
        time.sleep(0.02)
    done.set()
    for worker in workers:
        worker.join()
    assert sum(map(len, seen)) == sent
    assert sum(map(bool, seen)) > 1
