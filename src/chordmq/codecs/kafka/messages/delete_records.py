"""Kafka's DeleteRecords messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import Wire


class DeleteRecordsPartition(Struct):
    """A part of DeleteRecordsRequest."""

    partition_index: Annotated[int, Wire("int32")] = 0
    offset: Annotated[int, Wire("int64")] = 0


class DeleteRecordsTopic(Struct):
    """A part of DeleteRecordsRequest."""

    name: Annotated[str, Wire("string")] = ""
    partitions: Annotated[list[DeleteRecordsPartition], Wire("[]DeleteRecordsPartition")] = field(
        default_factory=list
    )


class DeleteRecordsRequest(Struct):
    """DeleteRecordsRequest, versions 0-2."""

    api_key: ClassVar[int] = 21
    versions: ClassVar[range] = range(3)
    flexible_since: ClassVar[int | None] = 2

    topics: Annotated[list[DeleteRecordsTopic], Wire("[]DeleteRecordsTopic")] = field(
        default_factory=list
    )
    timeout_ms: Annotated[int, Wire("int32")] = 0


class DeleteRecordsPartitionResult(Struct):
    """A part of DeleteRecordsResponse."""

    partition_index: Annotated[int, Wire("int32")] = 0
    low_watermark: Annotated[int, Wire("int64")] = 0
    error_code: Annotated[int, Wire("int16")] = 0


class DeleteRecordsTopicResult(Struct):
    """A part of DeleteRecordsResponse."""

    name: Annotated[str, Wire("string")] = ""
    partitions: Annotated[
        list[DeleteRecordsPartitionResult], Wire("[]DeleteRecordsPartitionResult")
    ] = field(default_factory=list)


class DeleteRecordsResponse(Struct):
    """DeleteRecordsResponse, versions 0-2."""

    api_key: ClassVar[int] = 21
    versions: ClassVar[range] = range(3)
    flexible_since: ClassVar[int | None] = 2

    throttle_time_ms: Annotated[int, Wire("int32")] = 0
    topics: Annotated[list[DeleteRecordsTopicResult], Wire("[]DeleteRecordsTopicResult")] = field(
        default_factory=list
    )
