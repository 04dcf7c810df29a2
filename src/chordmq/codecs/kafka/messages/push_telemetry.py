"""Kafka's PushTelemetry messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct

from chordmq.codecs.kafka.wire import NO_UUID, Wire


class PushTelemetryRequest(Struct):
    """PushTelemetryRequest, versions 0."""

    api_key: ClassVar[int] = 72
    versions: ClassVar[range] = range(1)
    flexible_since: ClassVar[int | None] = 0

    client_instance_id: Annotated[bytes, Wire("uuid")] = NO_UUID
    subscription_id: Annotated[int, Wire("int32")] = 0
    terminating: Annotated[bool, Wire("bool")] = False
    compression_type: Annotated[int, Wire("int8")] = 0
    metrics: Annotated[bytes, Wire("bytes")] = b""


class PushTelemetryResponse(Struct):
    """PushTelemetryResponse, versions 0."""

    api_key: ClassVar[int] = 72
    versions: ClassVar[range] = range(1)
    flexible_since: ClassVar[int | None] = 0

    throttle_time_ms: Annotated[int, Wire("int32")] = 0
    error_code: Annotated[int, Wire("int16")] = 0
