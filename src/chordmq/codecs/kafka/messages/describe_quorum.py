"""Kafka's DescribeQuorum messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from chordmq.codecs.kafka.wire import NO_UUID, Wire


@dataclass(slots=True)
class DescribeQuorumRequestPartitionData:
    """A part of DescribeQuorumRequest."""

    partition_index: Annotated[int, Wire("int32")] = 0


@dataclass(slots=True)
class DescribeQuorumRequestTopicData:
    """A part of DescribeQuorumRequest."""

    topic_name: Annotated[str, Wire("string")] = ""
    partitions: Annotated[
        list[DescribeQuorumRequestPartitionData], Wire("[]DescribeQuorumRequestPartitionData")
    ] = field(default_factory=list)


@dataclass(slots=True)
class DescribeQuorumRequest:
    """DescribeQuorumRequest, versions 0-2."""

    api_key: ClassVar[int] = 55
    versions: ClassVar[range] = range(3)
    flexible_since: ClassVar[int | None] = 0

    topics: Annotated[
        list[DescribeQuorumRequestTopicData], Wire("[]DescribeQuorumRequestTopicData")
    ] = field(default_factory=list)


@dataclass(slots=True)
class ReplicaState:
    """A part of DescribeQuorumResponse."""

    replica_id: Annotated[int, Wire("int32")] = 0
    replica_directory_id: Annotated[bytes, Wire("uuid", "2+")] = NO_UUID
    log_end_offset: Annotated[int, Wire("int64")] = 0
    last_fetch_timestamp: Annotated[int, Wire("int64", "1+", ignorable=True)] = -1
    last_caught_up_timestamp: Annotated[int, Wire("int64", "1+", ignorable=True)] = -1


@dataclass(slots=True)
class DescribeQuorumResponsePartitionData:
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


@dataclass(slots=True)
class DescribeQuorumResponseTopicData:
    """A part of DescribeQuorumResponse."""

    topic_name: Annotated[str, Wire("string")] = ""
    partitions: Annotated[
        list[DescribeQuorumResponsePartitionData], Wire("[]DescribeQuorumResponsePartitionData")
    ] = field(default_factory=list)


@dataclass(slots=True)
class Listener:
    """A part of DescribeQuorumResponse."""

    name: Annotated[str, Wire("string", "2+")] = ""
    host: Annotated[str, Wire("string", "2+")] = ""
    port: Annotated[int, Wire("uint16", "2+")] = 0


@dataclass(slots=True)
class Node:
    """A part of DescribeQuorumResponse."""

    node_id: Annotated[int, Wire("int32", "2+")] = 0
    listeners: Annotated[list[Listener], Wire("[]Listener", "2+")] = field(default_factory=list)


@dataclass(slots=True)
class DescribeQuorumResponse:
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
