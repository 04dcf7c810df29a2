"""Kafka's JoinGroup messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import Wire


class JoinGroupRequestProtocol(Struct):
    """A part of JoinGroupRequest."""

    name: Annotated[str, Wire("string")] = ""
    metadata: Annotated[bytes, Wire("bytes")] = b""


class JoinGroupRequest(Struct):
    """JoinGroupRequest, versions 0-9."""

    api_key: ClassVar[int] = 11
    versions: ClassVar[range] = range(10)
    flexible_since: ClassVar[int | None] = 6

    group_id: Annotated[str, Wire("string")] = ""
    session_timeout_ms: Annotated[int, Wire("int32")] = 0
    rebalance_timeout_ms: Annotated[int, Wire("int32", "1+", ignorable=True)] = -1
    member_id: Annotated[str, Wire("string")] = ""
    group_instance_id: Annotated[str | None, Wire("string", "5+", nullable="5+")] = None
    protocol_type: Annotated[str, Wire("string")] = ""
    protocols: Annotated[list[JoinGroupRequestProtocol], Wire("[]JoinGroupRequestProtocol")] = (
        field(default_factory=list)
    )
    reason: Annotated[str | None, Wire("string", "8+", nullable="8+", ignorable=True)] = None


class JoinGroupResponseMember(Struct):
    """A part of JoinGroupResponse."""

    member_id: Annotated[str, Wire("string")] = ""
    group_instance_id: Annotated[
        str | None, Wire("string", "5+", nullable="5+", ignorable=True)
    ] = None
    metadata: Annotated[bytes, Wire("bytes")] = b""


class JoinGroupResponse(Struct):
    """JoinGroupResponse, versions 0-9."""

    api_key: ClassVar[int] = 11
    versions: ClassVar[range] = range(10)
    flexible_since: ClassVar[int | None] = 6

    throttle_time_ms: Annotated[int, Wire("int32", "2+", ignorable=True)] = 0
    error_code: Annotated[int, Wire("int16")] = 0
    generation_id: Annotated[int, Wire("int32")] = -1
    protocol_type: Annotated[str | None, Wire("string", "7+", nullable="7+", ignorable=True)] = None
    protocol_name: Annotated[str | None, Wire("string", nullable="7+")] = ""
    leader: Annotated[str, Wire("string")] = ""
    skip_assignment: Annotated[bool, Wire("bool", "9+")] = False
    member_id: Annotated[str, Wire("string")] = ""
    members: Annotated[list[JoinGroupResponseMember], Wire("[]JoinGroupResponseMember")] = field(
        default_factory=list
    )
