"""Kafka's DescribeGroups messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import Wire


class DescribeGroupsRequest(Struct):
    """DescribeGroupsRequest, versions 0-6."""

    api_key: ClassVar[int] = 15
    versions: ClassVar[range] = range(7)
    flexible_since: ClassVar[int | None] = 5

    groups: Annotated[list[str], Wire("[]string")] = field(default_factory=list)
    include_authorized_operations: Annotated[bool, Wire("bool", "3+")] = False


class DescribedGroupMember(Struct):
    """A part of DescribeGroupsResponse."""

    member_id: Annotated[str, Wire("string")] = ""
    group_instance_id: Annotated[
        str | None, Wire("string", "4+", nullable="4+", ignorable=True)
    ] = None
    client_id: Annotated[str, Wire("string")] = ""
    client_host: Annotated[str, Wire("string")] = ""
    member_metadata: Annotated[bytes, Wire("bytes")] = b""
    member_assignment: Annotated[bytes, Wire("bytes")] = b""


class DescribedGroup(Struct):
    """A part of DescribeGroupsResponse."""

    error_code: Annotated[int, Wire("int16")] = 0
    error_message: Annotated[str | None, Wire("string", "6+", nullable="6+")] = None
    group_id: Annotated[str, Wire("string")] = ""
    group_state: Annotated[str, Wire("string")] = ""
    protocol_type: Annotated[str, Wire("string")] = ""
    protocol_data: Annotated[str, Wire("string")] = ""
    members: Annotated[list[DescribedGroupMember], Wire("[]DescribedGroupMember")] = field(
        default_factory=list
    )
    authorized_operations: Annotated[int, Wire("int32", "3+")] = -2147483648


class DescribeGroupsResponse(Struct):
    """DescribeGroupsResponse, versions 0-6."""

    api_key: ClassVar[int] = 15
    versions: ClassVar[range] = range(7)
    flexible_since: ClassVar[int | None] = 5

    throttle_time_ms: Annotated[int, Wire("int32", "1+", ignorable=True)] = 0
    groups: Annotated[list[DescribedGroup], Wire("[]DescribedGroup")] = field(default_factory=list)
