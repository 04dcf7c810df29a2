"""Kafka's OffsetForLeaderEpoch messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import Wire


class OffsetForLeaderPartition(Struct):
    """A part of OffsetForLeaderEpochRequest."""

    partition: Annotated[int, Wire("int32")] = 0
    current_leader_epoch: Annotated[int, Wire("int32", ignorable=True)] = -1
    leader_epoch: Annotated[int, Wire("int32")] = 0


class OffsetForLeaderTopic(Struct):
    """A part of OffsetForLeaderEpochRequest."""

    topic: Annotated[str, Wire("string")] = ""
    partitions: Annotated[list[OffsetForLeaderPartition], Wire("[]OffsetForLeaderPartition")] = (
        field(default_factory=list)
    )


class OffsetForLeaderEpochRequest(Struct):
    """OffsetForLeaderEpochRequest, versions 2-4."""

    api_key: ClassVar[int] = 23
    versions: ClassVar[range] = range(2, 5)
    flexible_since: ClassVar[int | None] = 4

    replica_id: Annotated[int, Wire("int32", "3+", ignorable=True)] = -2
    topics: Annotated[list[OffsetForLeaderTopic], Wire("[]OffsetForLeaderTopic")] = field(
        default_factory=list
    )


class EpochEndOffset(Struct):
    """A part of OffsetForLeaderEpochResponse."""

    error_code: Annotated[int, Wire("int16")] = 0
    partition: Annotated[int, Wire("int32")] = 0
    leader_epoch: Annotated[int, Wire("int32", ignorable=True)] = -1
    end_offset: Annotated[int, Wire("int64")] = -1


class OffsetForLeaderTopicResult(Struct):
    """A part of OffsetForLeaderEpochResponse."""

    topic: Annotated[str, Wire("string")] = ""
    partitions: Annotated[list[EpochEndOffset], Wire("[]EpochEndOffset")] = field(
        default_factory=list
    )


class OffsetForLeaderEpochResponse(Struct):
    """OffsetForLeaderEpochResponse, versions 2-4."""

    api_key: ClassVar[int] = 23
    versions: ClassVar[range] = range(2, 5)
    flexible_since: ClassVar[int | None] = 4

    throttle_time_ms: Annotated[int, Wire("int32", ignorable=True)] = 0
    topics: Annotated[list[OffsetForLeaderTopicResult], Wire("[]OffsetForLeaderTopicResult")] = (
        field(default_factory=list)
    )
