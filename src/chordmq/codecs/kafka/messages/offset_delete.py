"""Kafka's OffsetDelete messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from chordmq.codecs.kafka.wire import Wire


@dataclass(slots=True)
class OffsetDeleteRequestPartition:
    """A part of OffsetDeleteRequest."""

    partition_index: Annotated[int, Wire("int32")] = 0


@dataclass(slots=True)
class OffsetDeleteRequestTopic:
    """A part of OffsetDeleteRequest."""

    name: Annotated[str, Wire("string")] = ""
    partitions: Annotated[
        list[OffsetDeleteRequestPartition], Wire("[]OffsetDeleteRequestPartition")
    ] = field(default_factory=list)


@dataclass(slots=True)
class OffsetDeleteRequest:
    """OffsetDeleteRequest, versions 0."""

    api_key: ClassVar[int] = 47
    versions: ClassVar[range] = range(1)
    flexible_since: ClassVar[int | None] = None

    group_id: Annotated[str, Wire("string")] = ""
    topics: Annotated[list[OffsetDeleteRequestTopic], Wire("[]OffsetDeleteRequestTopic")] = field(
        default_factory=list
    )


@dataclass(slots=True)
class OffsetDeleteResponsePartition:
    """A part of OffsetDeleteResponse."""

    partition_index: Annotated[int, Wire("int32")] = 0
    error_code: Annotated[int, Wire("int16")] = 0


@dataclass(slots=True)
class OffsetDeleteResponseTopic:
    """A part of OffsetDeleteResponse."""

    name: Annotated[str, Wire("string")] = ""
    partitions: Annotated[
        list[OffsetDeleteResponsePartition], Wire("[]OffsetDeleteResponsePartition")
    ] = field(default_factory=list)


@dataclass(slots=True)
class OffsetDeleteResponse:
    """OffsetDeleteResponse, versions 0."""

    api_key: ClassVar[int] = 47
    versions: ClassVar[range] = range(1)
    flexible_since: ClassVar[int | None] = None

    error_code: Annotated[int, Wire("int16")] = 0
    throttle_time_ms: Annotated[int, Wire("int32", ignorable=True)] = 0
    topics: Annotated[list[OffsetDeleteResponseTopic], Wire("[]OffsetDeleteResponseTopic")] = field(
        default_factory=list
    )
