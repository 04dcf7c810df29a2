"""Kafka's SyncGroup messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import Wire


class SyncGroupRequestAssignment(Struct):
    """A part of SyncGroupRequest."""

    member_id: Annotated[str, Wire("string")] = ""
    assignment: Annotated[bytes, Wire("bytes")] = b""


class SyncGroupRequest(Struct):
    """SyncGroupRequest, versions 0-5."""

    api_key: ClassVar[int] = 14
    versions: ClassVar[range] = range(6)
    flexible_since: ClassVar[int | None] = 4

    group_id: Annotated[str, Wire("string")] = ""
    generation_id: Annotated[int, Wire("int32")] = 0
    member_id: Annotated[str, Wire("string")] = ""
    group_instance_id: Annotated[str | None, Wire("string", "3+", nullable="3+")] = None
    protocol_type: Annotated[str | None, Wire("string", "5+", nullable="5+", ignorable=True)] = None
    protocol_name: Annotated[str | None, Wire("string", "5+", nullable="5+", ignorable=True)] = None
    assignments: Annotated[
        list[SyncGroupRequestAssignment], Wire("[]SyncGroupRequestAssignment")
    ] = field(default_factory=list)


class SyncGroupResponse(Struct):
    """SyncGroupResponse, versions 0-5."""

    api_key: ClassVar[int] = 14
    versions: ClassVar[range] = range(6)
    flexible_since: ClassVar[int | None] = 4

    throttle_time_ms: Annotated[int, Wire("int32", "1+", ignorable=True)] = 0
    error_code: Annotated[int, Wire("int16")] = 0
    protocol_type: Annotated[str | None, Wire("string", "5+", nullable="5+", ignorable=True)] = None
    protocol_name: Annotated[str | None, Wire("string", "5+", nullable="5+", ignorable=True)] = None
    assignment: Annotated[bytes, Wire("bytes")] = b""
