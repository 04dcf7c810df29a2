"""Kafka's DescribeQuorum messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import NO_UUID, Wire


class DescribeQuorumRequestPartitionData(Struct):
    """A part of DescribeQuorumRequest."""

    partition_index: Annotated[int, Wire("int32")] = 0


class DescribeQuorumRequestTopicData(Struct):
    """A part of DescribeQuorumRequest."""

    topic_name: Annotated[str, Wire("string")] = ""
    partitions: Annotated[
        list[DescribeQuorumRequestPartitionData], Wire("[]DescribeQuorumRequestPartitionData")
    ] = field(default_factory=list)


class DescribeQuorumRequest(Struct):
    """DescribeQuorumRequest, versions 0-2."""

    api_key: ClassVar[int] = 55
    versions: ClassVar[range] = range(3)
    flexible_since: ClassVar[int | None] = 0

    topics: Annotated[
        list[DescribeQuorumRequestTopicData], Wire("[]DescribeQuorumRequestTopicData")
    ] = field(default_factory=list)


class ReplicaState(Struct):
    """A part of DescribeQuorumResponse."""

    replica_id: Annotated[int, Wire("int32")] = 0
    replica_directory_id: Annotated[bytes, Wire("uuid", "2+")] = NO_UUID
    log_end_offset: Annotated[int, Wire("int64")] = 0
    last_fetch_timestamp: Annotated[int, Wire("int64", "1+", ignorable=True)] = -1
    last_caught_up_timestamp: Annotated[int, Wire("int64", "1+", ignorable=True)] = -1


class DescribeQuorumResponsePartitionData(Struct):
    """A part of DescribeQuorumResponse."""

    partition_index: Annotated[int, Wire("int32")] = 0
    error_code: Annotated[int, Wire("int16")] = 0
    error_message: Annotated[str | None, Wire("string", "2+", nullable="2+", ignorable=True)] = ""
    leader_id: Annotated[int, Wire("int32")] = 0
    leader_epoch: Annotated[int, Wire("int32")] = 0
    high_watermark: Annotated[int, Wire("int64")] = 0
    current_voters: Annotated[list[ReplicaState], Wire("[]ReplicaState")] = field(
        default_factory=list
    )
    observers: Annotated[list[ReplicaState], Wire("[]ReplicaState")] = field(default_factory=list)


class DescribeQuorumResponseTopicData(Struct):
    """A part of DescribeQuorumResponse."""

    topic_name: Annotated[str, Wire("string")] = ""
    partitions: Annotated[
        list[DescribeQuorumResponsePartitionData], Wire("[]DescribeQuorumResponsePartitionData")
    ] = field(default_factory=list)


class Listener(Struct):
    """A part of DescribeQuorumResponse."""

    name: Annotated[str, Wire("string", "2+")] = ""
    host: Annotated[str, Wire("string", "2+")] = ""
    port: Annotated[int, Wire("uint16", "2+")] = 0


class Node(Struct):
    """A part of DescribeQuorumResponse."""

    node_id: Annotated[int, Wire("int32", "2+")] = 0
    listeners: Annotated[list[Listener], Wire("[]Listener", "2+")] = field(default_factory=list)


class DescribeQuorumResponse(Struct):
    """DescribeQuorumResponse, versions 0-2."""

    api_key: ClassVar[int] = 55
    versions: ClassVar[range] = range(3)
    flexible_since: ClassVar[int | None] = 0

    error_code: Annotated[int, Wire("int16")] = 0
    error_message: Annotated[str | None, Wire("string", "2+", nullable="2+", ignorable=True)] = ""
    topics: Annotated[
        list[DescribeQuorumResponseTopicData], Wire("[]DescribeQuorumResponseTopicData")
    ] = field(default_factory=list)
    nodes: Annotated[list[Node], Wire("[]Node", "2+")] = field(default_factory=list)
