"""Kafka's OffsetDelete messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import Wire


class OffsetDeleteRequestPartition(Struct):
    """A part of OffsetDeleteRequest."""

    partition_index: Annotated[int, Wire("int32")] = 0


class OffsetDeleteRequestTopic(Struct):
    """A part of OffsetDeleteRequest."""

    name: Annotated[str, Wire("string")] = ""
    partitions: Annotated[
        list[OffsetDeleteRequestPartition], Wire("[]OffsetDeleteRequestPartition")
    ] = field(default_factory=list)


class OffsetDeleteRequest(Struct):
    """OffsetDeleteRequest, versions 0."""

    api_key: ClassVar[int] = 47
    versions: ClassVar[range] = range(1)
    flexible_since: ClassVar[int | None] = None

    group_id: Annotated[str, Wire("string")] = ""
    topics: Annotated[list[OffsetDeleteRequestTopic], Wire("[]OffsetDeleteRequestTopic")] = field(
        default_factory=list
    )


class OffsetDeleteResponsePartition(Struct):
    """A part of OffsetDeleteResponse."""

    partition_index: Annotated[int, Wire("int32")] = 0
    error_code: Annotated[int, Wire("int16")] = 0


class OffsetDeleteResponseTopic(Struct):
    """A part of OffsetDeleteResponse."""

    name: Annotated[str, Wire("string")] = ""
    partitions: Annotated[
        list[OffsetDeleteResponsePartition], Wire("[]OffsetDeleteResponsePartition")
    ] = field(default_factory=list)


class OffsetDeleteResponse(Struct):
    """OffsetDeleteResponse, versions 0."""

    api_key: ClassVar[int] = 47
    versions: ClassVar[range] = range(1)
    flexible_since: ClassVar[int | None] = None

    error_code: Annotated[int, Wire("int16")] = 0
    throttle_time_ms: Annotated[int, Wire("int32", ignorable=True)] = 0
    topics: Annotated[list[OffsetDeleteResponseTopic], Wire("[]OffsetDeleteResponseTopic")] = field(
        default_factory=list
    )
