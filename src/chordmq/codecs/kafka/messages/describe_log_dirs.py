"""Kafka's DescribeLogDirs messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import Wire


class DescribableLogDirTopic(Struct):
    """A part of DescribeLogDirsRequest."""

    topic: Annotated[str, Wire("string")] = ""
    partitions: Annotated[list[int], Wire("[]int32")] = field(default_factory=list)


class DescribeLogDirsRequest(Struct):
    """DescribeLogDirsRequest, versions 1-5."""

    api_key: ClassVar[int] = 35
    versions: ClassVar[range] = range(1, 6)
    flexible_since: ClassVar[int | None] = 2

    topics: Annotated[
        list[DescribableLogDirTopic] | None, Wire("[]DescribableLogDirTopic", nullable="0+")
    ] = field(default_factory=list)


class DescribeLogDirsPartition(Struct):
    """A part of DescribeLogDirsResponse."""

    partition_index: Annotated[int, Wire("int32")] = 0
    partition_size: Annotated[int, Wire("int64")] = 0
    offset_lag: Annotated[int, Wire("int64")] = 0
    is_future_key: Annotated[bool, Wire("bool")] = False


class DescribeLogDirsTopic(Struct):
    """A part of DescribeLogDirsResponse."""

    name: Annotated[str, Wire("string")] = ""
    partitions: Annotated[list[DescribeLogDirsPartition], Wire("[]DescribeLogDirsPartition")] = (
        field(default_factory=list)
    )


class DescribeLogDirsResult(Struct):
    """A part of DescribeLogDirsResponse."""

    error_code: Annotated[int, Wire("int16")] = 0
    log_dir: Annotated[str, Wire("string")] = ""
    topics: Annotated[list[DescribeLogDirsTopic], Wire("[]DescribeLogDirsTopic")] = field(
        default_factory=list
    )
    total_bytes: Annotated[int, Wire("int64", "4+", ignorable=True)] = -1
    usable_bytes: Annotated[int, Wire("int64", "4+", ignorable=True)] = -1
    is_cordoned: Annotated[bool, Wire("bool", "5+", ignorable=True)] = False


class DescribeLogDirsResponse(Struct):
    """DescribeLogDirsResponse, versions 1-5."""

    api_key: ClassVar[int] = 35
    versions: ClassVar[range] = range(1, 6)
    flexible_since: ClassVar[int | None] = 2

    throttle_time_ms: Annotated[int, Wire("int32")] = 0
    error_code: Annotated[int, Wire("int16", "3+", ignorable=True)] = 0
    results: Annotated[list[DescribeLogDirsResult], Wire("[]DescribeLogDirsResult")] = field(
        default_factory=list
    )
