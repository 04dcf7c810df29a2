"""Reads a topic, writes what it makes of each record to another, exactly once; made to be killed.

Arguments: bootstrap address, source topic, target topic, number of the process; then, if others are
wanted, records of a transaction and milliseconds of the group's session. Whatever goes wrong ends
the process: its successor finds the truth in the log.
"""

import random
import signal
import sys
import time

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

BATCH = 5
SESSION_MS = 1500
PAUSE_S_MAX = 0.05
TIMEOUT_S = 60.0
STUCK_S = 8
"""librdkafka may wait for ever for a coordinator that has gone (its issues 5456 and 5511)."""


def main() -> None:
    """Transform until killed."""
    bootstrap, source, target, number, *others = sys.argv[1:]
    batch, session_ms = map(int, others or (BATCH, SESSION_MS))
    pauses = random.Random(number)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": source,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "session.timeout.ms": session_ms,
            "heartbeat.interval.ms": 300,
        }
    )
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": f"{target}-{number}",
            "transaction.timeout.ms": 3000,
        }
    )
    signal.alarm(int(TIMEOUT_S))
    producer.init_transactions(TIMEOUT_S)
    consumer.subscribe([source])
    while True:
        signal.alarm(STUCK_S)  # the kernel ends a process that gets no further
        messages = [m for m in consumer.consume(batch, 0.2) if m.error() is None]
        if not messages:
            continue
        producer.begin_transaction()
        for message in messages:
            producer.produce(target, key=message.key(), value=message.value())
        time.sleep(pauses.uniform(0, PAUSE_S_MAX))  # gives death a chance at every step
        producer.send_offsets_to_transaction(
            _ends(messages), consumer.consumer_group_metadata(), TIMEOUT_S
        )
        time.sleep(pauses.uniform(0, PAUSE_S_MAX))
        _commit(producer)


def _ends(messages: list[Message]) -> list[TopicPartition]:
    """Return the offset after the last message of each partition."""
    ends: dict[tuple[str, int], int] = {}
    for message in messages:
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        assert topic is not None
        assert partition is not None
        assert offset is not None
        ends[topic, partition] = offset + 1
    return [TopicPartition(topic, partition, end) for (topic, partition), end in ends.items()]


def _commit(producer: Producer) -> None:
    while True:
        try:
            producer.commit_transaction(TIMEOUT_S)
            return
        except KafkaException as failure:
            if not failure.args[0].retriable():
                raise


if __name__ == "__main__":
    main()
