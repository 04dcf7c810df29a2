"""Kafka's ShareGroupDescribe messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import NO_UUID, Wire


class ShareGroupDescribeRequest(Struct):
    """ShareGroupDescribeRequest, versions 1."""

    api_key: ClassVar[int] = 77
    versions: ClassVar[range] = range(1, 2)
    flexible_since: ClassVar[int | None] = 0

    group_ids: Annotated[list[str], Wire("[]string")] = field(default_factory=list)
    include_authorized_operations: Annotated[bool, Wire("bool")] = False


class TopicPartitions(Struct):
    """A part of ShareGroupDescribeResponse."""

    topic_id: Annotated[bytes, Wire("uuid")] = NO_UUID
    topic_name: Annotated[str, Wire("string")] = ""
    partitions: Annotated[list[int], Wire("[]int32")] = field(default_factory=list)


class Assignment(Struct):
    """A part of ShareGroupDescribeResponse."""

    topic_partitions: Annotated[list[TopicPartitions], Wire("[]TopicPartitions")] = field(
        default_factory=list
    )


class Member(Struct):
    """A part of ShareGroupDescribeResponse."""

    member_id: Annotated[str, Wire("string")] = ""
    rack_id: Annotated[str | None, Wire("string", nullable="0+")] = None
    member_epoch: Annotated[int, Wire("int32")] = 0
    client_id: Annotated[str, Wire("string")] = ""
    client_host: Annotated[str, Wire("string")] = ""
    subscribed_topic_names: Annotated[list[str], Wire("[]string")] = field(default_factory=list)
    assignment: Annotated[Assignment, Wire("Assignment")] = field(default_factory=Assignment)


class DescribedGroup(Struct):
    """A part of ShareGroupDescribeResponse."""

    error_code: Annotated[int, Wire("int16")] = 0
    error_message: Annotated[str | None, Wire("string", nullable="0+")] = None
    group_id: Annotated[str, Wire("string")] = ""
    group_state: Annotated[str, Wire("string")] = ""
    group_epoch: Annotated[int, Wire("int32")] = 0
    assignment_epoch: Annotated[int, Wire("int32")] = 0
    assignor_name: Annotated[str, Wire("string")] = ""
    members: Annotated[list[Member], Wire("[]Member")] = field(default_factory=list)
    authorized_operations: Annotated[int, Wire("int32")] = -2147483648


class ShareGroupDescribeResponse(Struct):
    """ShareGroupDescribeResponse, versions 1."""

    api_key: ClassVar[int] = 77
    versions: ClassVar[range] = range(1, 2)
    flexible_since: ClassVar[int | None] = 0

    throttle_time_ms: Annotated[int, Wire("int32")] = 0
    groups: Annotated[list[DescribedGroup], Wire("[]DescribedGroup")] = field(default_factory=list)
