"""Kafka's OffsetFetch messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import NO_UUID, Wire


class OffsetFetchRequestTopic(Struct):
    """A part of OffsetFetchRequest."""

    name: Annotated[str, Wire("string", "0-7")] = ""
    partition_indexes: Annotated[list[int], Wire("[]int32", "0-7")] = field(default_factory=list)


class OffsetFetchRequestTopics(Struct):
    """A part of OffsetFetchRequest."""

    name: Annotated[str, Wire("string", "8-9", ignorable=True)] = ""
    topic_id: Annotated[bytes, Wire("uuid", "10+", ignorable=True)] = NO_UUID
    partition_indexes: Annotated[list[int], Wire("[]int32", "8+")] = field(default_factory=list)


class OffsetFetchRequestGroup(Struct):
    """A part of OffsetFetchRequest."""

    group_id: Annotated[str, Wire("string", "8+")] = ""
    member_id: Annotated[str | None, Wire("string", "9+", nullable="9+", ignorable=True)] = None
    member_epoch: Annotated[int, Wire("int32", "9+", ignorable=True)] = -1
    topics: Annotated[
        list[OffsetFetchRequestTopics] | None,
        Wire("[]OffsetFetchRequestTopics", "8+", nullable="8+"),
    ] = field(default_factory=list)


class OffsetFetchRequest(Struct):
    """OffsetFetchRequest, versions 1-10."""

    api_key: ClassVar[int] = 9
    versions: ClassVar[range] = range(1, 11)
    flexible_since: ClassVar[int | None] = 6

    group_id: Annotated[str, Wire("string", "0-7")] = ""
    topics: Annotated[
        list[OffsetFetchRequestTopic] | None,
        Wire("[]OffsetFetchRequestTopic", "0-7", nullable="2-7"),
    ] = field(default_factory=list)
    groups: Annotated[list[OffsetFetchRequestGroup], Wire("[]OffsetFetchRequestGroup", "8+")] = (
        field(default_factory=list)
    )
    require_stable: Annotated[bool, Wire("bool", "7+")] = False


class OffsetFetchResponsePartition(Struct):
    """A part of OffsetFetchResponse."""

    partition_index: Annotated[int, Wire("int32", "0-7")] = 0
    committed_offset: Annotated[int, Wire("int64", "0-7")] = 0
    committed_leader_epoch: Annotated[int, Wire("int32", "5-7", ignorable=True)] = -1
    metadata: Annotated[str | None, Wire("string", "0-7", nullable="0-7")] = ""
    error_code: Annotated[int, Wire("int16", "0-7")] = 0


class OffsetFetchResponseTopic(Struct):
    """A part of OffsetFetchResponse."""

    name: Annotated[str, Wire("string", "0-7")] = ""
    partitions: Annotated[
        list[OffsetFetchResponsePartition], Wire("[]OffsetFetchResponsePartition", "0-7")
    ] = field(default_factory=list)


class OffsetFetchResponsePartitions(Struct):
    """A part of OffsetFetchResponse."""

    partition_index: Annotated[int, Wire("int32", "8+")] = 0
    committed_offset: Annotated[int, Wire("int64", "8+")] = 0
    committed_leader_epoch: Annotated[int, Wire("int32", "8+", ignorable=True)] = -1
    metadata: Annotated[str | None, Wire("string", "8+", nullable="8+")] = ""
    error_code: Annotated[int, Wire("int16", "8+")] = 0


class OffsetFetchResponseTopics(Struct):
    """A part of OffsetFetchResponse."""

    name: Annotated[str, Wire("string", "8-9", ignorable=True)] = ""
    topic_id: Annotated[bytes, Wire("uuid", "10+", ignorable=True)] = NO_UUID
    partitions: Annotated[
        list[OffsetFetchResponsePartitions], Wire("[]OffsetFetchResponsePartitions", "8+")
    ] = field(default_factory=list)


class OffsetFetchResponseGroup(Struct):
    """A part of OffsetFetchResponse."""

    group_id: Annotated[str, Wire("string", "8+")] = ""
    topics: Annotated[
        list[OffsetFetchResponseTopics], Wire("[]OffsetFetchResponseTopics", "8+")
    ] = field(default_factory=list)
    error_code: Annotated[int, Wire("int16", "8+")] = 0


class OffsetFetchResponse(Struct):
    """OffsetFetchResponse, versions 1-10."""

    api_key: ClassVar[int] = 9
    versions: ClassVar[range] = range(1, 11)
    flexible_since: ClassVar[int | None] = 6

    throttle_time_ms: Annotated[int, Wire("int32", "3+", ignorable=True)] = 0
    topics: Annotated[list[OffsetFetchResponseTopic], Wire("[]OffsetFetchResponseTopic", "0-7")] = (
        field(default_factory=list)
    )
    error_code: Annotated[int, Wire("int16", "2-7", ignorable=True)] = 0
    groups: Annotated[list[OffsetFetchResponseGroup], Wire("[]OffsetFetchResponseGroup", "8+")] = (
        field(default_factory=list)
    )
