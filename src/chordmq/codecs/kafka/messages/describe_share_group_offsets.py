"""Kafka's DescribeShareGroupOffsets messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import NO_UUID, Wire


class DescribeShareGroupOffsetsRequestTopic(Struct):
    """A part of DescribeShareGroupOffsetsRequest."""

    topic_name: Annotated[str, Wire("string")] = ""
    partitions: Annotated[list[int], Wire("[]int32")] = field(default_factory=list)


class DescribeShareGroupOffsetsRequestGroup(Struct):
    """A part of DescribeShareGroupOffsetsRequest."""

    group_id: Annotated[str, Wire("string")] = ""
    topics: Annotated[
        list[DescribeShareGroupOffsetsRequestTopic] | None,
        Wire("[]DescribeShareGroupOffsetsRequestTopic", nullable="0+"),
    ] = field(default_factory=list)


class DescribeShareGroupOffsetsRequest(Struct):
    """DescribeShareGroupOffsetsRequest, versions 0-1."""

    api_key: ClassVar[int] = 90
    versions: ClassVar[range] = range(2)
    flexible_since: ClassVar[int | None] = 0

    groups: Annotated[
        list[DescribeShareGroupOffsetsRequestGroup], Wire("[]DescribeShareGroupOffsetsRequestGroup")
    ] = field(default_factory=list)


class DescribeShareGroupOffsetsResponsePartition(Struct):
    """A part of DescribeShareGroupOffsetsResponse."""

    partition_index: Annotated[int, Wire("int32")] = 0
    start_offset: Annotated[int, Wire("int64")] = 0
    leader_epoch: Annotated[int, Wire("int32")] = 0
    lag: Annotated[int, Wire("int64", "1+", ignorable=True)] = -1
    error_code: Annotated[int, Wire("int16")] = 0
    error_message: Annotated[str | None, Wire("string", nullable="0+")] = None


class DescribeShareGroupOffsetsResponseTopic(Struct):
    """A part of DescribeShareGroupOffsetsResponse."""

    topic_name: Annotated[str, Wire("string")] = ""
    topic_id: Annotated[bytes, Wire("uuid")] = NO_UUID
    partitions: Annotated[
        list[DescribeShareGroupOffsetsResponsePartition],
        Wire("[]DescribeShareGroupOffsetsResponsePartition"),
    ] = field(default_factory=list)


class DescribeShareGroupOffsetsResponseGroup(Struct):
    """A part of DescribeShareGroupOffsetsResponse."""

    group_id: Annotated[str, Wire("string")] = ""
    topics: Annotated[
        list[DescribeShareGroupOffsetsResponseTopic],
        Wire("[]DescribeShareGroupOffsetsResponseTopic"),
    ] = field(default_factory=list)
    error_code: Annotated[int, Wire("int16")] = 0
    error_message: Annotated[str | None, Wire("string", nullable="0+")] = None


class DescribeShareGroupOffsetsResponse(Struct):
    """DescribeShareGroupOffsetsResponse, versions 0-1."""

    api_key: ClassVar[int] = 90
    versions: ClassVar[range] = range(2)
    flexible_since: ClassVar[int | None] = 0

    throttle_time_ms: Annotated[int, Wire("int32")] = 0
    groups: Annotated[
        list[DescribeShareGroupOffsetsResponseGroup],
        Wire("[]DescribeShareGroupOffsetsResponseGroup"),
    ] = field(default_factory=list)
