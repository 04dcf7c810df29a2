"""All that a topic holds, as Kafka's clients read it."""

from confluent_kafka import Consumer, TopicPartition


def numbers_by_partition(bootstrap: str, topic: str, partitions: int = 2) -> dict[int, list[int]]:
    """Return what is committed, in the order of the log."""
    found: dict[int, list[int]] = {index: [] for index in range(partitions)}
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "check",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in found])
    ended: set[int] = set()
    while len(ended) < len(found):
        for message in consumer.consume(10_000, timeout=1):
            if message.error():
                ended.add(message.partition() or 0)
            else:
                found[message.partition() or 0].append(int(message.value() or b""))
    consumer.close()
    return found
