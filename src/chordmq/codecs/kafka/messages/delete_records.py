"""Kafka's DeleteRecords messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from chordmq.codecs.kafka.wire import Wire


@dataclass(slots=True)
class DeleteRecordsPartition:
    """A part of DeleteRecordsRequest."""

    partition_index: Annotated[int, Wire("int32")] = 0
    offset: Annotated[int, Wire("int64")] = 0


@dataclass(slots=True)
class DeleteRecordsTopic:
    """A part of DeleteRecordsRequest."""

    name: Annotated[str, Wire("string")] = ""
    partitions: Annotated[list[DeleteRecordsPartition], Wire("[]DeleteRecordsPartition")] = field(
        default_factory=list
    )


@dataclass(slots=True)
class DeleteRecordsRequest:
    """DeleteRecordsRequest, versions 0-2."""

    api_key: ClassVar[int] = 21
    versions: ClassVar[range] = range(3)
    flexible_since: ClassVar[int | None] = 2

    topics: Annotated[list[DeleteRecordsTopic], Wire("[]DeleteRecordsTopic")] = field(
        default_factory=list
    )
    timeout_ms: Annotated[int, Wire("int32")] = 0


@dataclass(slots=True)
class DeleteRecordsPartitionResult:
    """A part of DeleteRecordsResponse."""

    partition_index: Annotated[int, Wire("int32")] = 0
    low_watermark: Annotated[int, Wire("int64")] = 0
    error_code: Annotated[int, Wire("int16")] = 0


@dataclass(slots=True)
class DeleteRecordsTopicResult:
    """A part of DeleteRecordsResponse."""

    name: Annotated[str, Wire("string")] = ""
    partitions: Annotated[
        list[DeleteRecordsPartitionResult], Wire("[]DeleteRecordsPartitionResult")
    ] = field(default_factory=list)


@dataclass(slots=True)
class DeleteRecordsResponse:
    """DeleteRecordsResponse, versions 0-2."""

    api_key: ClassVar[int] = 21
    versions: ClassVar[range] = range(3)
    flexible_since: ClassVar[int | None] = 2

    throttle_time_ms: Annotated[int, Wire("int32")] = 0
    topics: Annotated[list[DeleteRecordsTopicResult], Wire("[]DeleteRecordsTopicResult")] = field(
        default_factory=list
    )
