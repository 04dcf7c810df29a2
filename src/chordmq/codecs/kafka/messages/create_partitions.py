"""Kafka's CreatePartitions messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import Wire


class CreatePartitionsAssignment(Struct):
    """A part of CreatePartitionsRequest."""

    broker_ids: Annotated[list[int], Wire("[]int32")] = field(default_factory=list)


class CreatePartitionsTopic(Struct):
    """A part of CreatePartitionsRequest."""

    name: Annotated[str, Wire("string")] = ""
    count: Annotated[int, Wire("int32")] = 0
    assignments: Annotated[
        list[CreatePartitionsAssignment] | None, Wire("[]CreatePartitionsAssignment", nullable="0+")
    ] = field(default_factory=list)


class CreatePartitionsRequest(Struct):
    """CreatePartitionsRequest, versions 0-3."""

    api_key: ClassVar[int] = 37
    versions: ClassVar[range] = range(4)
    flexible_since: ClassVar[int | None] = 2

    topics: Annotated[list[CreatePartitionsTopic], Wire("[]CreatePartitionsTopic")] = field(
        default_factory=list
    )
    timeout_ms: Annotated[int, Wire("int32")] = 0
    validate_only: Annotated[bool, Wire("bool")] = False


class CreatePartitionsTopicResult(Struct):
    """A part of CreatePartitionsResponse."""

    name: Annotated[str, Wire("string")] = ""
    error_code: Annotated[int, Wire("int16")] = 0
    error_message: Annotated[str | None, Wire("string", nullable="0+")] = None


class CreatePartitionsResponse(Struct):
    """CreatePartitionsResponse, versions 0-3."""

    api_key: ClassVar[int] = 37
    versions: ClassVar[range] = range(4)
    flexible_since: ClassVar[int | None] = 2

    throttle_time_ms: Annotated[int, Wire("int32")] = 0
    results: Annotated[list[CreatePartitionsTopicResult], Wire("[]CreatePartitionsTopicResult")] = (
        field(default_factory=list)
    )
