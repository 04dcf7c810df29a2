"""Kafka, through librdkafka."""

from typing import Any

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from tests.interop.doors.door import Sample
from tests.running_node import RunningNode

TIMEOUT_S = 60
SIZE_MAX = 4 * 1024 * 1024


class Kafka:
    """Carries everything."""

    def produce(self, node: RunningNode, topic: str, sample: Sample) -> None:
        producer = Producer({"bootstrap.servers": node.bootstrap, "message.max.bytes": SIZE_MAX})
        failures: list[Any] = []
        producer.produce(
            topic,
            key=sample.key,
            value=sample.value,
            headers=list(sample.headers),
            timestamp=sample.timestamp,
            on_delivery=lambda error, _: failures.append(error),
        )
        assert producer.flush(TIMEOUT_S) == 0
        assert failures == [None]

    def consume(self, node: RunningNode, topic: str, count: int) -> list[Sample]:
        consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": topic})
        try:
            consumer.assign([TopicPartition(topic, 0, 0)])
            found: list[Message] = []
            while len(found) < count:
                more = consumer.consume(count - len(found), TIMEOUT_S)
                assert more, "no message came"
                found += more
            return [_sample(message) for message in found]
        finally:
            consumer.close()

    def carried(self, sample: Sample) -> Sample:
        return sample


def _sample(message: Message) -> Sample:
    assert message.error() is None
    headers: Any = tuple(message.headers() or ())  # typed as sequences of anything
    return Sample(message.key(), message.value(), headers, message.timestamp()[1])
