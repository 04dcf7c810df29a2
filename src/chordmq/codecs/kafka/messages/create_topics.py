"""Kafka's CreateTopics messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import NO_UUID, Wire


class CreatableReplicaAssignment(Struct):
    """A part of CreateTopicsRequest."""

    partition_index: Annotated[int, Wire("int32")] = 0
    broker_ids: Annotated[list[int], Wire("[]int32")] = field(default_factory=list)


class CreatableTopicConfig(Struct):
    """A part of CreateTopicsRequest."""

    name: Annotated[str, Wire("string")] = ""
    value: Annotated[str | None, Wire("string", nullable="0+")] = ""


class CreatableTopic(Struct):
    """A part of CreateTopicsRequest."""

    name: Annotated[str, Wire("string")] = ""
    num_partitions: Annotated[int, Wire("int32")] = 0
    replication_factor: Annotated[int, Wire("int16")] = 0
    assignments: Annotated[
        list[CreatableReplicaAssignment], Wire("[]CreatableReplicaAssignment")
    ] = field(default_factory=list)
    configs: Annotated[list[CreatableTopicConfig], Wire("[]CreatableTopicConfig")] = field(
        default_factory=list
    )


class CreateTopicsRequest(Struct):
    """CreateTopicsRequest, versions 2-7."""

    api_key: ClassVar[int] = 19
    versions: ClassVar[range] = range(2, 8)
    flexible_since: ClassVar[int | None] = 5

    topics: Annotated[list[CreatableTopic], Wire("[]CreatableTopic")] = field(default_factory=list)
    timeout_ms: Annotated[int, Wire("int32")] = 60000
    validate_only: Annotated[bool, Wire("bool")] = False


class CreatableTopicConfigs(Struct):
    """A part of CreateTopicsResponse."""

    name: Annotated[str, Wire("string", "5+")] = ""
    value: Annotated[str | None, Wire("string", "5+", nullable="5+")] = ""
    read_only: Annotated[bool, Wire("bool", "5+")] = False
    config_source: Annotated[int, Wire("int8", "5+", ignorable=True)] = -1
    is_sensitive: Annotated[bool, Wire("bool", "5+")] = False


class CreatableTopicResult(Struct):
    """A part of CreateTopicsResponse."""

    name: Annotated[str, Wire("string")] = ""
    topic_id: Annotated[bytes, Wire("uuid", "7+", ignorable=True)] = NO_UUID
    error_code: Annotated[int, Wire("int16")] = 0
    error_message: Annotated[str | None, Wire("string", nullable="0+", ignorable=True)] = ""
    topic_config_error_code: Annotated[int, Wire("int16", "5+", tag=0, ignorable=True)] = 0
    num_partitions: Annotated[int, Wire("int32", "5+", ignorable=True)] = -1
    replication_factor: Annotated[int, Wire("int16", "5+", ignorable=True)] = -1
    configs: Annotated[
        list[CreatableTopicConfigs] | None,
        Wire("[]CreatableTopicConfigs", "5+", nullable="5+", ignorable=True),
    ] = field(default_factory=list)


class CreateTopicsResponse(Struct):
    """CreateTopicsResponse, versions 2-7."""

    api_key: ClassVar[int] = 19
    versions: ClassVar[range] = range(2, 8)
    flexible_since: ClassVar[int | None] = 5

    throttle_time_ms: Annotated[int, Wire("int32", ignorable=True)] = 0
    topics: Annotated[list[CreatableTopicResult], Wire("[]CreatableTopicResult")] = field(
        default_factory=list
    )
