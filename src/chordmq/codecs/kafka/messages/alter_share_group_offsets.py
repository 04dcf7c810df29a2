"""Kafka's AlterShareGroupOffsets messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import NO_UUID, Wire


class AlterShareGroupOffsetsRequestPartition(Struct):
    """A part of AlterShareGroupOffsetsRequest."""

    partition_index: Annotated[int, Wire("int32")] = 0
    start_offset: Annotated[int, Wire("int64")] = 0


class AlterShareGroupOffsetsRequestTopic(Struct):
    """A part of AlterShareGroupOffsetsRequest."""

    topic_name: Annotated[str, Wire("string")] = ""
    partitions: Annotated[
        list[AlterShareGroupOffsetsRequestPartition],
        Wire("[]AlterShareGroupOffsetsRequestPartition"),
    ] = field(default_factory=list)


class AlterShareGroupOffsetsRequest(Struct):
    """AlterShareGroupOffsetsRequest, versions 0."""

    api_key: ClassVar[int] = 91
    versions: ClassVar[range] = range(1)
    flexible_since: ClassVar[int | None] = 0

    group_id: Annotated[str, Wire("string")] = ""
    topics: Annotated[
        list[AlterShareGroupOffsetsRequestTopic], Wire("[]AlterShareGroupOffsetsRequestTopic")
    ] = field(default_factory=list)


class AlterShareGroupOffsetsResponsePartition(Struct):
    """A part of AlterShareGroupOffsetsResponse."""

    partition_index: Annotated[int, Wire("int32")] = 0
    error_code: Annotated[int, Wire("int16")] = 0
    error_message: Annotated[str | None, Wire("string", nullable="0+")] = None


class AlterShareGroupOffsetsResponseTopic(Struct):
    """A part of AlterShareGroupOffsetsResponse."""

    topic_name: Annotated[str, Wire("string")] = ""
    topic_id: Annotated[bytes, Wire("uuid")] = NO_UUID
    partitions: Annotated[
        list[AlterShareGroupOffsetsResponsePartition],
        Wire("[]AlterShareGroupOffsetsResponsePartition"),
    ] = field(default_factory=list)


class AlterShareGroupOffsetsResponse(Struct):
    """AlterShareGroupOffsetsResponse, versions 0."""

    api_key: ClassVar[int] = 91
    versions: ClassVar[range] = range(1)
    flexible_since: ClassVar[int | None] = 0

    throttle_time_ms: Annotated[int, Wire("int32")] = 0
    error_code: Annotated[int, Wire("int16")] = 0
    error_message: Annotated[str | None, Wire("string", nullable="0+")] = None
    responses: Annotated[
        list[AlterShareGroupOffsetsResponseTopic], Wire("[]AlterShareGroupOffsetsResponseTopic")
    ] = field(default_factory=list)
