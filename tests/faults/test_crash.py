"""A node that is killed while clients work: what was acknowledged is there, in order, once."""

import random
import time
from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kio.schema.errors import ErrorCode

from tests.running_node import RunningNode
from tests.wire import INIT_PRODUCER_ID, METADATA, Wire, record_batch, stored

KILLS = 3
ACKNOWLEDGED_PER_ROUND = 1500
OUTSTANDING_MAX = 1000
DEADLINE_S = 60.0
QUICK = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100, "retry.backoff.ms": 20}


@dataclass
class Sender:
    """A librdkafka producer that numbers its records and remembers what was acknowledged."""

    topic: str
    settings: dict[str, Any]
    sent: int = 0
    failed: int = 0
    acknowledged: dict[int, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._producer = Producer({"acks": "all", "linger.ms": 1, **QUICK, **self.settings})

    def send_until(self, acknowledged: int) -> None:
        """Send on until that many records are acknowledged, with many on their way."""
        deadline = time.monotonic() + DEADLINE_S
        while len(self.acknowledged) < acknowledged:
            assert time.monotonic() < deadline, f"only {len(self.acknowledged)} acknowledged"
            if self.sent - self.failed - len(self.acknowledged) < OUTSTANDING_MAX:
                value = b"%08d" % self.sent
                self._producer.produce(self.topic, value, on_delivery=self._on_delivery)
                self.sent += 1
                self._producer.poll(0)
            else:
                self._producer.poll(0.01)

    def finish(self) -> None:
        """Wait until every record is acknowledged or has failed."""
        assert self._producer.flush(DEADLINE_S) == 0

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        value, offset = message.value(), message.offset()
        if error is not None:
            self.failed += 1
            return
        assert isinstance(value, bytes)
        assert offset is not None
        assert offset not in self.acknowledged, "one offset was acknowledged twice"
        self.acknowledged[offset] = value


def create_topic(node: RunningNode, name: str, partitions: int = 1, **settings: str) -> str:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result(60)
    return name


def read_log(node: RunningNode, topic: str) -> list[bytes | None]:
    """Return every value of partition 0, all uncompressed; offsets must have no holes."""
    values: list[bytes | None] = []
    with Wire(node.address) as wire:
        while True:
            answer = wire.fetch(topic, len(values), max_bytes=50_000_000)
            assert answer.error_code is ErrorCode.none
            if not answer.records:
                assert answer.high_watermark == len(values)
                return values
            for offset, value in stored(answer.records):
                assert offset == len(values)
                values.append(value)


@pytest.mark.parametrize("flush", ["disk", "os"])
def test_an_idempotent_producer_loses_and_repeats_nothing(
    own_node: RunningNode, name: str, flush: str
) -> None:
    """C3, D5: retries over three crashes leave exactly what was sent, in the order it was sent."""
    topic = create_topic(own_node, name, flush=flush)
    idempotent = {"bootstrap.servers": own_node.bootstrap, "enable.idempotence": True}
    sender = Sender(topic, idempotent)
    for crash in range(1, KILLS + 1):
        sender.send_until(crash * ACKNOWLEDGED_PER_ROUND)
        own_node.restart()
    sender.send_until((KILLS + 1) * ACKNOWLEDGED_PER_ROUND)
    sender.finish()
    assert sender.failed == 0
    values = read_log(own_node, topic)
    assert values == [b"%08d" % number for number in range(sender.sent)]
    assert dict(enumerate(values)) == sender.acknowledged


def test_without_retries_every_acknowledged_record_stays_at_its_offset(
    own_node: RunningNode, name: str
) -> None:
    """D5: what failed may be there or not; what was acknowledged is there once."""
    topic = create_topic(own_node, name)
    plain = {"bootstrap.servers": own_node.bootstrap, "message.send.max.retries": 0}
    sender = Sender(topic, plain)
    for crash in range(1, KILLS + 1):
        sender.send_until(crash * ACKNOWLEDGED_PER_ROUND)
        own_node.restart()
    sender.send_until((KILLS + 1) * ACKNOWLEDGED_PER_ROUND)
    sender.finish()
    values = read_log(own_node, topic)
    assert {offset: values[offset] for offset in sender.acknowledged} == sender.acknowledged
    assert len(set(values)) == len(values)


def test_logs_of_many_segments_survive_with_every_partition(
    own_node: RunningNode, name: str
) -> None:
    """D5, C5: three crashes while compressed batches of 20 KiB roll small segments."""
    topic = create_topic(own_node, name, partitions=4, **{"segment.bytes": "1048576"})
    sent: dict[int, list[bytes]] = {partition: [] for partition in range(4)}
    acknowledged: dict[tuple[int | None, int | None], bytes | None] = {}

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        acknowledged[message.partition(), message.offset()] = message.value()

    producer = Producer(
        {
            "bootstrap.servers": own_node.bootstrap,
            "enable.idempotence": True,
            "compression.type": "lz4",
            **QUICK,
        }
    )
    noise = random.Random(1)
    for crash in range(KILLS + 1):
        for _ in range(100):
            for partition, values in sent.items():
                values.append(noise.randbytes(20_000))
                producer.produce(topic, values[-1], partition=partition, on_delivery=on_delivery)
                producer.poll(0)
        if crash < KILLS:
            own_node.restart()
    assert producer.flush(DEADLINE_S) == 0
    assert len(list(own_node.data.rglob(f"*{topic}*/*.log"))) > 8
    consumer = Consumer({"bootstrap.servers": own_node.bootstrap, "group.id": "none"})
    for partition, values in sent.items():
        consumer.assign([TopicPartition(topic, partition, 0)])
        assert _read(consumer, len(values)) == values
        assert values == [acknowledged[partition, offset] for offset in range(len(values))]
    consumer.close()


def test_what_a_consumer_has_seen_is_never_taken_back(own_node: RunningNode, name: str) -> None:
    """D5: records that were read before a crash are there after it, at the same offsets."""
    topic = create_topic(own_node, name)
    sender = Sender(topic, {"bootstrap.servers": own_node.bootstrap, "enable.idempotence": True})
    seen: dict[int, bytes | None] = {}
    for crash in range(1, KILLS + 1):
        sender.send_until(crash * 500)
        with Wire(own_node.address) as wire:
            answer = wire.fetch(topic, len(seen), max_bytes=50_000_000)
            seen.update(stored(answer.records))
        own_node.restart()
    sender.finish()
    values = read_log(own_node, topic)
    assert {offset: values[offset] for offset in seen} == seen


def test_a_node_killed_while_it_recovers_recovers_the_next_time(
    own_node: RunningNode, name: str
) -> None:
    """D5: recovery itself may be cut off at any point."""
    topic = create_topic(own_node, name, flush="os")
    sender = Sender(topic, {"bootstrap.servers": own_node.bootstrap, "enable.idempotence": True})
    sender.send_until(3000)
    for delay_s in (0.2, 0.4, 0.6, 0.8):
        own_node.kill9()
        own_node.start(wait=False)
        time.sleep(delay_s)  # not to wait for something, but to stop it at different points
    own_node.restart()
    sender.send_until(4000)
    sender.finish()
    assert read_log(own_node, topic) == [b"%08d" % number for number in range(sender.sent)]


def test_a_batch_retried_after_a_crash_is_answered_with_its_first_offset(
    own_node: RunningNode, name: str
) -> None:
    """C3: sequence numbers are known again after the restart, and producer ids are not reused."""
    topic = create_topic(own_node, name)
    fresh = {"transaction_timeout": 10_000, "producer_id": -1, "producer_epoch": -1}
    with Wire(own_node.address) as wire:
        producer = wire.call(INIT_PRODUCER_ID, 4, **fresh)

        def batch(sequence: int) -> bytes:
            return record_batch(
                [b"%d" % sequence, b"more"],
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                base_sequence=sequence,
            )

        for sequence in (0, 2, 4):
            assert wire.produce(topic, batch(sequence)).base_offset == sequence
    own_node.restart()
    with Wire(own_node.address) as wire:
        for sequence in (4, 2, 0):
            again = wire.produce(topic, batch(sequence))
            assert (again.error_code, again.base_offset) == (ErrorCode.none, sequence)
        gap = wire.produce(topic, batch(10))
        assert gap.error_code is ErrorCode.out_of_order_sequence_number
        assert wire.produce(topic, batch(6)).base_offset == 6
        other = wire.call(INIT_PRODUCER_ID, 4, **fresh)
        assert other.producer_id != producer.producer_id


def test_topics_and_their_settings_survive_a_crash(own_node: RunningNode, name: str) -> None:
    """D5: a topic that was acknowledged exists, with the same id."""
    topic = create_topic(own_node, name, partitions=3, **{"retention.ms": "12345"})

    def described() -> Any:
        with Wire(own_node.address) as wire:
            return wire.call(METADATA, 12, topics=[{"name": topic}]).topics[0]

    before = described()
    own_node.restart()
    after = described()
    assert (after.topic_id, len(after.partitions)) == (before.topic_id, 3)
    admin = AdminClient({"bootstrap.servers": own_node.bootstrap})
    topics = admin.list_topics(timeout=60).topics
    assert topic in topics


def test_a_torn_write_is_cut_and_the_log_goes_on_behind_it(
    own_node: RunningNode, name: str
) -> None:
    """D5: half a batch at the end of the file, as a power cut leaves it."""
    topic = create_topic(own_node, name)
    with Wire(own_node.address) as wire:
        for number in range(10):
            wire.produce(topic, record_batch([b"%d" % number]))
    own_node.kill9()
    (segment,) = (file for file in own_node.data.rglob("*.log") if topic in str(file))
    with segment.open("ab") as file:
        file.write(record_batch([b"torn" * 100])[:-150])
    own_node.start()
    with Wire(own_node.address) as wire:
        assert wire.produce(topic, record_batch([b"next"])).base_offset == 10
    assert read_log(own_node, topic) == [*(b"%d" % number for number in range(10)), b"next"]


def test_a_group_that_was_away_resumes_after_a_crash(own_node: RunningNode, name: str) -> None:
    """A5: committed offsets survive, so nothing is missed and nothing comes twice."""
    topic = create_topic(own_node, name)
    settings = {
        "bootstrap.servers": own_node.bootstrap,
        "group.id": name,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": 30_000,
        **QUICK,
    }
    sender = Sender(topic, {"bootstrap.servers": own_node.bootstrap})
    sender.send_until(100)
    sender.finish()
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    first = _read(consumer, 60)
    consumer.commit(offsets=[TopicPartition(topic, 0, 60)], asynchronous=False)
    consumer.close()
    own_node.restart()
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    rest = _read(consumer, sender.sent - 60)
    consumer.close()
    assert first + rest == [b"%08d" % number for number in range(sender.sent)]


def test_a_group_member_goes_on_over_a_crash(own_node: RunningNode, name: str) -> None:
    """A5: a consumer that never stopped joins again by itself and continues."""
    topic = create_topic(own_node, name)
    settings = {
        "bootstrap.servers": own_node.bootstrap,
        "group.id": name,
        "auto.offset.reset": "earliest",
        "session.timeout.ms": 30_000,
        "heartbeat.interval.ms": 200,
        **QUICK,
    }
    sender = Sender(topic, {"bootstrap.servers": own_node.bootstrap, "enable.idempotence": True})
    sender.send_until(50)
    sender.finish()
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    before = _read(consumer, sender.sent)
    consumer.commit(asynchronous=False)
    own_node.restart()
    sent_before = sender.sent
    sender.send_until(sender.sent + 50)
    sender.finish()
    after = _read(consumer, sender.sent - sent_before)
    consumer.close()
    assert before + after == [b"%08d" % number for number in range(sender.sent)]


def _read(consumer: Consumer, count: int) -> list[bytes]:
    values: list[bytes] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(values) < count:
        assert time.monotonic() < deadline, f"{len(values)} of {count} came"
        for message in consumer.consume(count - len(values), timeout=0.5):
            error, value = message.error(), message.value()
            assert error is None or error.retriable() or error.code() == KafkaError._TRANSPORT
            if error is None:
                assert isinstance(value, bytes)
                values.append(value)
    return values
