"""Kafka's ListPartitionReassignments messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from chordmq.codecs.kafka.wire import Wire


@dataclass(slots=True)
class ListPartitionReassignmentsTopics:
    """A part of ListPartitionReassignmentsRequest."""

    name: Annotated[str, Wire("string")] = ""
    partition_indexes: Annotated[list[int], Wire("[]int32")] = field(default_factory=list)


@dataclass(slots=True)
class ListPartitionReassignmentsRequest:
    """ListPartitionReassignmentsRequest, versions 0."""

    api_key: ClassVar[int] = 46
    versions: ClassVar[range] = range(1)
    flexible_since: ClassVar[int | None] = 0

    timeout_ms: Annotated[int, Wire("int32")] = 60000
    topics: Annotated[
        list[ListPartitionReassignmentsTopics] | None,
        Wire("[]ListPartitionReassignmentsTopics", nullable="0+"),
    ] = None


@dataclass(slots=True)
class OngoingPartitionReassignment:
    """A part of ListPartitionReassignmentsResponse."""

    partition_index: Annotated[int, Wire("int32")] = 0
    replicas: Annotated[list[int], Wire("[]int32")] = field(default_factory=list)
    adding_replicas: Annotated[list[int], Wire("[]int32")] = field(default_factory=list)
    removing_replicas: Annotated[list[int], Wire("[]int32")] = field(default_factory=list)


@dataclass(slots=True)
class OngoingTopicReassignment:
    """A part of ListPartitionReassignmentsResponse."""

    name: Annotated[str, Wire("string")] = ""
    partitions: Annotated[
        list[OngoingPartitionReassignment], Wire("[]OngoingPartitionReassignment")
    ] = field(default_factory=list)


@dataclass(slots=True)
class ListPartitionReassignmentsResponse:
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
