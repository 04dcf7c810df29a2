"""Kafka's LeaveGroup messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import Wire


class MemberIdentity(Struct):
    """A part of LeaveGroupRequest."""

    member_id: Annotated[str, Wire("string", "3+")] = ""
    group_instance_id: Annotated[str | None, Wire("string", "3+", nullable="3+")] = None
    reason: Annotated[str | None, Wire("string", "5+", nullable="5+", ignorable=True)] = None


class LeaveGroupRequest(Struct):
    """LeaveGroupRequest, versions 0-5."""

    api_key: ClassVar[int] = 13
    versions: ClassVar[range] = range(6)
    flexible_since: ClassVar[int | None] = 4

    group_id: Annotated[str, Wire("string")] = ""
    member_id: Annotated[str, Wire("string", "0-2")] = ""
    members: Annotated[list[MemberIdentity], Wire("[]MemberIdentity", "3+")] = field(
        default_factory=list
    )


class MemberResponse(Struct):
    """A part of LeaveGroupResponse."""

    member_id: Annotated[str, Wire("string", "3+")] = ""
    group_instance_id: Annotated[str | None, Wire("string", "3+", nullable="3+")] = ""
    error_code: Annotated[int, Wire("int16", "3+")] = 0


class LeaveGroupResponse(Struct):
    """LeaveGroupResponse, versions 0-5."""

    api_key: ClassVar[int] = 13
    versions: ClassVar[range] = range(6)
    flexible_since: ClassVar[int | None] = 4

    throttle_time_ms: Annotated[int, Wire("int32", "1+", ignorable=True)] = 0
    error_code: Annotated[int, Wire("int16")] = 0
    members: Annotated[list[MemberResponse], Wire("[]MemberResponse", "3+")] = field(
        default_factory=list
    )
