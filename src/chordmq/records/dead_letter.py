"""What a dead letter tells of the record that nobody could process: where it was, and why not."""

from chordmq.records.record import Headers

TOPIC_HEADER = "chordmq.origin.topic"
PARTITION_HEADER = "chordmq.origin.partition"
OFFSET_HEADER = "chordmq.origin.offset"
GROUP_HEADER = "chordmq.dead.group"
DELIVERIES_HEADER = "chordmq.dead.deliveries"
REASON_HEADER = "chordmq.dead.reason"

REASON_LENGTH_MAX = 1_000


def obituary(
    topic: str, partition: int, offset: int, group: str, deliveries: int, reason: str
) -> Headers:
    """Return the headers that a dead letter has besides those of the record."""
    return (
        (TOPIC_HEADER, topic.encode()),
        (PARTITION_HEADER, str(partition).encode()),
        (OFFSET_HEADER, str(offset).encode()),
        (GROUP_HEADER, group.encode()),
        (DELIVERIES_HEADER, str(deliveries).encode()),
        (REASON_HEADER, reason[:REASON_LENGTH_MAX].encode()),
    )
