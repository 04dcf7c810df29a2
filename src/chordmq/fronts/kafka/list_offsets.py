"""ListOffsets and OffsetForLeaderEpoch: which offset belongs to a time or an epoch."""

from chordmq.broker.partition import NO_EPOCH, Partition
from chordmq.broker.security.acl import Kind, Operation
from chordmq.codecs.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from chordmq.codecs.kafka.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from chordmq.errors import ChordMQError, UnsupportedVersion
from chordmq.fronts.kafka.call import Call
from chordmq.fronts.kafka.errors import code_of

READ_COMMITTED = 1
LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
SPECIAL_SINCE = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""Numbers below zero that stand for a place, and the version that knows them first."""
UNKNOWN = 1000
NONE = (-1, -1)
EPOCHS_SINCE = 4


def list_offsets(call: Call, request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Find the offset of a time, or the first or last one, in each partition."""
    topics = [
        ListOffsetsTopicResponse(
            name=topic.name,
            partitions=[
                _list(call, topic.name, partition, request.isolation_level == READ_COMMITTED)
                for partition in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return ListOffsetsResponse(topics=topics)


def _list(
    call: Call, topic: str, wanted: ListOffsetsPartition, only_stable: bool
) -> ListOffsetsPartitionResponse:
    row = ListOffsetsPartitionResponse(
        partition_index=wanted.partition_index, timestamp=-1, offset=-1, leader_epoch=NO_EPOCH
    )
    try:
        call.check(Operation.DESCRIBE, Kind.TOPIC, topic)
        if wanted.timestamp < 0 and call.version < SPECIAL_SINCE.get(wanted.timestamp, UNKNOWN):
            raise UnsupportedVersion(f"timestamp {wanted.timestamp} has no meaning here")
        partition = call.broker.partition(topic, wanted.partition_index)
        partition.check_epoch(wanted.current_leader_epoch)
        partition.check_current()
        row.offset, row.timestamp = _find(partition, wanted.timestamp, only_stable)
    except ChordMQError as error:
        row.error_code = code_of(error)
    else:
        if row.offset >= 0 and call.version >= EPOCHS_SINCE:
            row.leader_epoch = partition.leader_epoch
    return row


def _find(partition: Partition, timestamp: int, only_stable: bool) -> tuple[int, int]:
    """Return (offset, timestamp); the time of the first and last offsets is not told."""
    end = partition.stable_offset if only_stable else partition.high_watermark
    if timestamp == LATEST:
        return end, -1
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return partition.log.start_offset, -1
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NONE  # nothing is tiered
    if timestamp == MAX_TIMESTAMP:
        found: tuple[int, int] | None = partition.log.latest_time()
    else:
        found = partition.log.offset_for_time(timestamp)
    if found is None or found[0] >= end:
        return NONE
    return found


def offset_for_leader_epoch(
    call: Call, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    """Say where an epoch's records end, so that a client can tell whether its own are there."""
    topics = []
    for topic in request.topics:
        rows = []
        for wanted in topic.partitions:
            row = EpochEndOffset(partition=wanted.partition, leader_epoch=-1, end_offset=-1)
            try:
                call.check(Operation.DESCRIBE, Kind.TOPIC, topic.topic)
                partition = call.broker.partition(topic.topic, wanted.partition)
                partition.check_epoch(wanted.current_leader_epoch)
                partition.check_leading()
                if wanted.leader_epoch <= partition.leader_epoch:
                    row.leader_epoch, row.end_offset = partition.log.epoch_end(wanted.leader_epoch)
            except ChordMQError as error:
                row.error_code = code_of(error)
            rows.append(row)
        topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=rows))
    return OffsetForLeaderEpochResponse(topics=topics)
