"""Kafka's Heartbeat messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct

from chordmq.codecs.kafka.wire import Wire


class HeartbeatRequest(Struct):
    """HeartbeatRequest, versions 0-4."""

    api_key: ClassVar[int] = 12
    versions: ClassVar[range] = range(5)
    flexible_since: ClassVar[int | None] = 4

    group_id: Annotated[str, Wire("string")] = ""
    generation_id: Annotated[int, Wire("int32")] = 0
    member_id: Annotated[str, Wire("string")] = ""
    group_instance_id: Annotated[str | None, Wire("string", "3+", nullable="3+")] = None


class HeartbeatResponse(Struct):
    """HeartbeatResponse, versions 0-4."""

    api_key: ClassVar[int] = 12
    versions: ClassVar[range] = range(5)
    flexible_since: ClassVar[int | None] = 4

    throttle_time_ms: Annotated[int, Wire("int32", "1+", ignorable=True)] = 0
    error_code: Annotated[int, Wire("int16")] = 0
