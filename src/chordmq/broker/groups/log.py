"""The internal topic that keeps groups and offsets."""

from chordmq.broker.groups.records import GroupLogRecord, read, write
from chordmq.broker.internal_log import InternalTopic
from chordmq.broker.settings import BrokerSettings

TOPIC = "__consumer_offsets"


def _partitions(settings: BrokerSettings) -> int:
    return settings.offsets_topic_num_partitions


GROUP_TOPIC: InternalTopic[GroupLogRecord] = InternalTopic(
    name=TOPIC,
    settings={
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(100 * 2**20),
        # One record holds all members of a group, so a large group needs a large record.
        "max.message.bytes": str(100 * 2**20),
    },
    partitions=_partitions,
    write=write,
    read=read,
)
