"""Kafka's OffsetCommit messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import NO_UUID, Wire


class OffsetCommitRequestPartition(Struct):
    """A part of OffsetCommitRequest."""

    partition_index: Annotated[int, Wire("int32")] = 0
    committed_offset: Annotated[int, Wire("int64")] = 0
    committed_leader_epoch: Annotated[int, Wire("int32", "6+", ignorable=True)] = -1
    committed_metadata: Annotated[str | None, Wire("string", nullable="0+")] = ""


class OffsetCommitRequestTopic(Struct):
    """A part of OffsetCommitRequest."""

    name: Annotated[str, Wire("string", "0-9", ignorable=True)] = ""
    topic_id: Annotated[bytes, Wire("uuid", "10+", ignorable=True)] = NO_UUID
    partitions: Annotated[
        list[OffsetCommitRequestPartition], Wire("[]OffsetCommitRequestPartition")
    ] = field(default_factory=list)


class OffsetCommitRequest(Struct):
    """OffsetCommitRequest, versions 2-10."""

    api_key: ClassVar[int] = 8
    versions: ClassVar[range] = range(2, 11)
    flexible_since: ClassVar[int | None] = 8

    group_id: Annotated[str, Wire("string")] = ""
    generation_id_or_member_epoch: Annotated[int, Wire("int32", ignorable=True)] = -1
    member_id: Annotated[str, Wire("string", ignorable=True)] = ""
    group_instance_id: Annotated[str | None, Wire("string", "7+", nullable="7+")] = None
    retention_time_ms: Annotated[int, Wire("int64", "2-4", ignorable=True)] = -1
    topics: Annotated[list[OffsetCommitRequestTopic], Wire("[]OffsetCommitRequestTopic")] = field(
        default_factory=list
    )


class OffsetCommitResponsePartition(Struct):
    """A part of OffsetCommitResponse."""

    partition_index: Annotated[int, Wire("int32")] = 0
    error_code: Annotated[int, Wire("int16")] = 0


class OffsetCommitResponseTopic(Struct):
    """A part of OffsetCommitResponse."""

    name: Annotated[str, Wire("string", "0-9", ignorable=True)] = ""
    topic_id: Annotated[bytes, Wire("uuid", "10+", ignorable=True)] = NO_UUID
    partitions: Annotated[
        list[OffsetCommitResponsePartition], Wire("[]OffsetCommitResponsePartition")
    ] = field(default_factory=list)


class OffsetCommitResponse(Struct):
    """OffsetCommitResponse, versions 2-10."""

    api_key: ClassVar[int] = 8
    versions: ClassVar[range] = range(2, 11)
    flexible_since: ClassVar[int | None] = 8

    throttle_time_ms: Annotated[int, Wire("int32", "3+", ignorable=True)] = 0
    topics: Annotated[list[OffsetCommitResponseTopic], Wire("[]OffsetCommitResponseTopic")] = field(
        default_factory=list
    )
