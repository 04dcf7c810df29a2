"""Kafka's DescribeTopicPartitions messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import NO_UUID, Wire


class TopicRequest(Struct):
    """A part of DescribeTopicPartitionsRequest."""

    name: Annotated[str, Wire("string")] = ""


class Cursor(Struct):
    """A part of DescribeTopicPartitionsRequest."""

    topic_name: Annotated[str, Wire("string")] = ""
    partition_index: Annotated[int, Wire("int32")] = 0


class DescribeTopicPartitionsRequest(Struct):
    """DescribeTopicPartitionsRequest, versions 0."""

    api_key: ClassVar[int] = 75
    versions: ClassVar[range] = range(1)
    flexible_since: ClassVar[int | None] = 0

    topics: Annotated[list[TopicRequest], Wire("[]TopicRequest")] = field(default_factory=list)
    response_partition_limit: Annotated[int, Wire("int32")] = 2000
    cursor: Annotated[Cursor | None, Wire("Cursor", nullable="0+")] = None


class DescribeTopicPartitionsResponsePartition(Struct):
    """A part of DescribeTopicPartitionsResponse."""

    error_code: Annotated[int, Wire("int16")] = 0
    partition_index: Annotated[int, Wire("int32")] = 0
    leader_id: Annotated[int, Wire("int32")] = 0
    leader_epoch: Annotated[int, Wire("int32", ignorable=True)] = -1
    replica_nodes: Annotated[list[int], Wire("[]int32")] = field(default_factory=list)
    isr_nodes: Annotated[list[int], Wire("[]int32")] = field(default_factory=list)
    eligible_leader_replicas: Annotated[list[int] | None, Wire("[]int32", nullable="0+")] = None
    last_known_elr: Annotated[list[int] | None, Wire("[]int32", nullable="0+")] = None
    offline_replicas: Annotated[list[int], Wire("[]int32", ignorable=True)] = field(
        default_factory=list
    )


class DescribeTopicPartitionsResponseTopic(Struct):
    """A part of DescribeTopicPartitionsResponse."""

    error_code: Annotated[int, Wire("int16")] = 0
    name: Annotated[str | None, Wire("string", nullable="0+")] = ""
    topic_id: Annotated[bytes, Wire("uuid", ignorable=True)] = NO_UUID
    is_internal: Annotated[bool, Wire("bool", ignorable=True)] = False
    partitions: Annotated[
        list[DescribeTopicPartitionsResponsePartition],
        Wire("[]DescribeTopicPartitionsResponsePartition"),
    ] = field(default_factory=list)
    topic_authorized_operations: Annotated[int, Wire("int32")] = -2147483648


class DescribeTopicPartitionsResponse(Struct):
    """DescribeTopicPartitionsResponse, versions 0."""

    api_key: ClassVar[int] = 75
    versions: ClassVar[range] = range(1)
    flexible_since: ClassVar[int | None] = 0

    throttle_time_ms: Annotated[int, Wire("int32", ignorable=True)] = 0
    topics: Annotated[
        list[DescribeTopicPartitionsResponseTopic], Wire("[]DescribeTopicPartitionsResponseTopic")
    ] = field(default_factory=list)
    next_cursor: Annotated[Cursor | None, Wire("Cursor", nullable="0+")] = None
