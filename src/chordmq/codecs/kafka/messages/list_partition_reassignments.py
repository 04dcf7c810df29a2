"""Kafka's ListPartitionReassignments messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import Wire


class ListPartitionReassignmentsTopics(Struct):
    """A part of ListPartitionReassignmentsRequest."""

    name: Annotated[str, Wire("string")] = ""
    partition_indexes: Annotated[list[int], Wire("[]int32")] = field(default_factory=list)


class ListPartitionReassignmentsRequest(Struct):
    """ListPartitionReassignmentsRequest, versions 0."""

    api_key: ClassVar[int] = 46
    versions: ClassVar[range] = range(1)
    flexible_since: ClassVar[int | None] = 0

    timeout_ms: Annotated[int, Wire("int32")] = 60000
    topics: Annotated[
        list[ListPartitionReassignmentsTopics] | None,
        Wire("[]ListPartitionReassignmentsTopics", nullable="0+"),
    ] = None


class OngoingPartitionReassignment(Struct):
    """A part of ListPartitionReassignmentsResponse."""

    partition_index: Annotated[int, Wire("int32")] = 0
    replicas: Annotated[list[int], Wire("[]int32")] = field(default_factory=list)
    adding_replicas: Annotated[list[int], Wire("[]int32")] = field(default_factory=list)
    removing_replicas: Annotated[list[int], Wire("[]int32")] = field(default_factory=list)


class OngoingTopicReassignment(Struct):
    """A part of ListPartitionReassignmentsResponse."""

    name: Annotated[str, Wire("string")] = ""
    partitions: Annotated[
        list[OngoingPartitionReassignment], Wire("[]OngoingPartitionReassignment")
    ] = field(default_factory=list)


class ListPartitionReassignmentsResponse(Struct):
    """ListPartitionReassignmentsResponse, versions 0."""

    api_key: ClassVar[int] = 46
    versions: ClassVar[range] = range(1)
    flexible_since: ClassVar[int | None] = 0

    throttle_time_ms: Annotated[int, Wire("int32")] = 0
    error_code: Annotated[int, Wire("int16")] = 0
    error_message: Annotated[str | None, Wire("string", nullable="0+")] = ""
    topics: Annotated[list[OngoingTopicReassignment], Wire("[]OngoingTopicReassignment")] = field(
        default_factory=list
    )
