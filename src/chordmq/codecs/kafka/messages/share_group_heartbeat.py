"""Kafka's ShareGroupHeartbeat messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import NO_UUID, Wire


class ShareGroupHeartbeatRequest(Struct):
    """ShareGroupHeartbeatRequest, versions 1."""

    api_key: ClassVar[int] = 76
    versions: ClassVar[range] = range(1, 2)
    flexible_since: ClassVar[int | None] = 0

    group_id: Annotated[str, Wire("string")] = ""
    member_id: Annotated[str, Wire("string")] = ""
    member_epoch: Annotated[int, Wire("int32")] = 0
    rack_id: Annotated[str | None, Wire("string", nullable="0+")] = None
    subscribed_topic_names: Annotated[list[str] | None, Wire("[]string", nullable="0+")] = None


class TopicPartitions(Struct):
    """A part of ShareGroupHeartbeatResponse."""

    topic_id: Annotated[bytes, Wire("uuid")] = NO_UUID
    partitions: Annotated[list[int], Wire("[]int32")] = field(default_factory=list)


class Assignment(Struct):
    """A part of ShareGroupHeartbeatResponse."""

    topic_partitions: Annotated[list[TopicPartitions], Wire("[]TopicPartitions")] = field(
        default_factory=list
    )


class ShareGroupHeartbeatResponse(Struct):
    """ShareGroupHeartbeatResponse, versions 1."""

    api_key: ClassVar[int] = 76
    versions: ClassVar[range] = range(1, 2)
    flexible_since: ClassVar[int | None] = 0

    throttle_time_ms: Annotated[int, Wire("int32")] = 0
    error_code: Annotated[int, Wire("int16")] = 0
    error_message: Annotated[str | None, Wire("string", nullable="0+")] = None
    member_id: Annotated[str | None, Wire("string", nullable="0+")] = None
    member_epoch: Annotated[int, Wire("int32")] = 0
    heartbeat_interval_ms: Annotated[int, Wire("int32")] = 0
    assignment: Annotated[Assignment | None, Wire("Assignment", nullable="0+")] = None
