"""Kafka's ElectLeaders messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import Wire


class TopicPartitions(Struct):
    """A part of ElectLeadersRequest."""

    topic: Annotated[str, Wire("string")] = ""
    partitions: Annotated[list[int], Wire("[]int32")] = field(default_factory=list)


class ElectLeadersRequest(Struct):
    """ElectLeadersRequest, versions 0-2."""

    api_key: ClassVar[int] = 43
    versions: ClassVar[range] = range(3)
    flexible_since: ClassVar[int | None] = 2

    election_type: Annotated[int, Wire("int8", "1+")] = 0
    topic_partitions: Annotated[
        list[TopicPartitions] | None, Wire("[]TopicPartitions", nullable="0+")
    ] = field(default_factory=list)
    timeout_ms: Annotated[int, Wire("int32")] = 60000


class PartitionResult(Struct):
    """A part of ElectLeadersResponse."""

    partition_id: Annotated[int, Wire("int32")] = 0
    error_code: Annotated[int, Wire("int16")] = 0
    error_message: Annotated[str | None, Wire("string", nullable="0+")] = ""


class ReplicaElectionResult(Struct):
    """A part of ElectLeadersResponse."""

    topic: Annotated[str, Wire("string")] = ""
    partition_result: Annotated[list[PartitionResult], Wire("[]PartitionResult")] = field(
        default_factory=list
    )


class ElectLeadersResponse(Struct):
    """ElectLeadersResponse, versions 0-2."""

    api_key: ClassVar[int] = 43
    versions: ClassVar[range] = range(3)
    flexible_since: ClassVar[int | None] = 2

    throttle_time_ms: Annotated[int, Wire("int32")] = 0
    error_code: Annotated[int, Wire("int16", "1+")] = 0
    replica_election_results: Annotated[
        list[ReplicaElectionResult], Wire("[]ReplicaElectionResult")
    ] = field(default_factory=list)
