"""Kafka's ConsumerGroupHeartbeat messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import NO_UUID, Wire


class TopicPartitions(Struct):
    """A part of ConsumerGroupHeartbeatRequest."""

    topic_id: Annotated[bytes, Wire("uuid")] = NO_UUID
    partitions: Annotated[list[int], Wire("[]int32")] = field(default_factory=list)


class ConsumerGroupHeartbeatRequest(Struct):
    """ConsumerGroupHeartbeatRequest, versions 0-1."""

    api_key: ClassVar[int] = 68
    versions: ClassVar[range] = range(2)
    flexible_since: ClassVar[int | None] = 0

    group_id: Annotated[str, Wire("string")] = ""
    member_id: Annotated[str, Wire("string")] = ""
    member_epoch: Annotated[int, Wire("int32")] = 0
    instance_id: Annotated[str | None, Wire("string", nullable="0+")] = None
    rack_id: Annotated[str | None, Wire("string", nullable="0+")] = None
    rebalance_timeout_ms: Annotated[int, Wire("int32")] = -1
    subscribed_topic_names: Annotated[list[str] | None, Wire("[]string", nullable="0+")] = None
    subscribed_topic_regex: Annotated[str | None, Wire("string", "1+", nullable="1+")] = None
    server_assignor: Annotated[str | None, Wire("string", nullable="0+")] = None
    topic_partitions: Annotated[
        list[TopicPartitions] | None, Wire("[]TopicPartitions", nullable="0+")
    ] = None


class Assignment(Struct):
    """A part of ConsumerGroupHeartbeatResponse."""

    topic_partitions: Annotated[list[TopicPartitions], Wire("[]TopicPartitions")] = field(
        default_factory=list
    )


class ConsumerGroupHeartbeatResponse(Struct):
    """ConsumerGroupHeartbeatResponse, versions 0-1."""

    api_key: ClassVar[int] = 68
    versions: ClassVar[range] = range(2)
    flexible_since: ClassVar[int | None] = 0

    throttle_time_ms: Annotated[int, Wire("int32")] = 0
    error_code: Annotated[int, Wire("int16")] = 0
    error_message: Annotated[str | None, Wire("string", nullable="0+")] = None
    member_id: Annotated[str | None, Wire("string", nullable="0+")] = None
    member_epoch: Annotated[int, Wire("int32")] = 0
    heartbeat_interval_ms: Annotated[int, Wire("int32")] = 0
    assignment: Annotated[Assignment | None, Wire("Assignment", nullable="0+")] = None
