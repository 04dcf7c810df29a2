"""Kafka's AlterPartitionReassignments messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import Wire


class ReassignablePartition(Struct):
    """A part of AlterPartitionReassignmentsRequest."""

    partition_index: Annotated[int, Wire("int32")] = 0
    replicas: Annotated[list[int] | None, Wire("[]int32", nullable="0+")] = None


class ReassignableTopic(Struct):
    """A part of AlterPartitionReassignmentsRequest."""

    name: Annotated[str, Wire("string")] = ""
    partitions: Annotated[list[ReassignablePartition], Wire("[]ReassignablePartition")] = field(
        default_factory=list
    )


class AlterPartitionReassignmentsRequest(Struct):
    """AlterPartitionReassignmentsRequest, versions 0-1."""

    api_key: ClassVar[int] = 45
    versions: ClassVar[range] = range(2)
    flexible_since: ClassVar[int | None] = 0

    timeout_ms: Annotated[int, Wire("int32")] = 60000
    allow_replication_factor_change: Annotated[bool, Wire("bool", "1+")] = True
    topics: Annotated[list[ReassignableTopic], Wire("[]ReassignableTopic")] = field(
        default_factory=list
    )


class ReassignablePartitionResponse(Struct):
    """A part of AlterPartitionReassignmentsResponse."""

    partition_index: Annotated[int, Wire("int32")] = 0
    error_code: Annotated[int, Wire("int16")] = 0
    error_message: Annotated[str | None, Wire("string", nullable="0+")] = ""


class ReassignableTopicResponse(Struct):
    """A part of AlterPartitionReassignmentsResponse."""

    name: Annotated[str, Wire("string")] = ""
    partitions: Annotated[
        list[ReassignablePartitionResponse], Wire("[]ReassignablePartitionResponse")
    ] = field(default_factory=list)


class AlterPartitionReassignmentsResponse(Struct):
    """AlterPartitionReassignmentsResponse, versions 0-1."""

    api_key: ClassVar[int] = 45
    versions: ClassVar[range] = range(2)
    flexible_since: ClassVar[int | None] = 0

    throttle_time_ms: Annotated[int, Wire("int32")] = 0
    allow_replication_factor_change: Annotated[bool, Wire("bool", "1+", ignorable=True)] = True
    error_code: Annotated[int, Wire("int16")] = 0
    error_message: Annotated[str | None, Wire("string", nullable="0+")] = ""
    responses: Annotated[list[ReassignableTopicResponse], Wire("[]ReassignableTopicResponse")] = (
        field(default_factory=list)
    )
