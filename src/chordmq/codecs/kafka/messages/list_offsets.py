"""Kafka's ListOffsets messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import Wire


class ListOffsetsPartition(Struct):
    """A part of ListOffsetsRequest."""

    partition_index: Annotated[int, Wire("int32")] = 0
    current_leader_epoch: Annotated[int, Wire("int32", "4+", ignorable=True)] = -1
    timestamp: Annotated[int, Wire("int64")] = 0


class ListOffsetsTopic(Struct):
    """A part of ListOffsetsRequest."""

    name: Annotated[str, Wire("string")] = ""
    partitions: Annotated[list[ListOffsetsPartition], Wire("[]ListOffsetsPartition")] = field(
        default_factory=list
    )


class ListOffsetsRequest(Struct):
    """ListOffsetsRequest, versions 1-11."""

    api_key: ClassVar[int] = 2
    versions: ClassVar[range] = range(1, 12)
    flexible_since: ClassVar[int | None] = 6

    replica_id: Annotated[int, Wire("int32")] = 0
    isolation_level: Annotated[int, Wire("int8", "2+")] = 0
    topics: Annotated[list[ListOffsetsTopic], Wire("[]ListOffsetsTopic")] = field(
        default_factory=list
    )
    timeout_ms: Annotated[int, Wire("int32", "10+", ignorable=True)] = 0


class ListOffsetsPartitionResponse(Struct):
    """A part of ListOffsetsResponse."""

    partition_index: Annotated[int, Wire("int32")] = 0
    error_code: Annotated[int, Wire("int16")] = 0
    timestamp: Annotated[int, Wire("int64")] = -1
    offset: Annotated[int, Wire("int64")] = -1
    leader_epoch: Annotated[int, Wire("int32", "4+")] = -1


class ListOffsetsTopicResponse(Struct):
    """A part of ListOffsetsResponse."""

    name: Annotated[str, Wire("string")] = ""
    partitions: Annotated[
        list[ListOffsetsPartitionResponse], Wire("[]ListOffsetsPartitionResponse")
    ] = field(default_factory=list)


class ListOffsetsResponse(Struct):
    """ListOffsetsResponse, versions 1-11."""

    api_key: ClassVar[int] = 2
    versions: ClassVar[range] = range(1, 12)
    flexible_since: ClassVar[int | None] = 6

    throttle_time_ms: Annotated[int, Wire("int32", "2+", ignorable=True)] = 0
    topics: Annotated[list[ListOffsetsTopicResponse], Wire("[]ListOffsetsTopicResponse")] = field(
        default_factory=list
    )
