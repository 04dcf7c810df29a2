"""Kafka's GetTelemetrySubscriptions messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import NO_UUID, Wire


class GetTelemetrySubscriptionsRequest(Struct):
    """GetTelemetrySubscriptionsRequest, versions 0."""

    api_key: ClassVar[int] = 71
    versions: ClassVar[range] = range(1)
    flexible_since: ClassVar[int | None] = 0

    client_instance_id: Annotated[bytes, Wire("uuid")] = NO_UUID


class GetTelemetrySubscriptionsResponse(Struct):
    """GetTelemetrySubscriptionsResponse, versions 0."""

    api_key: ClassVar[int] = 71
    versions: ClassVar[range] = range(1)
    flexible_since: ClassVar[int | None] = 0

    throttle_time_ms: Annotated[int, Wire("int32")] = 0
    error_code: Annotated[int, Wire("int16")] = 0
    client_instance_id: Annotated[bytes, Wire("uuid")] = NO_UUID
    subscription_id: Annotated[int, Wire("int32")] = 0
    accepted_compression_types: Annotated[list[int], Wire("[]int8")] = field(default_factory=list)
    push_interval_ms: Annotated[int, Wire("int32")] = 0
    telemetry_max_bytes: Annotated[int, Wire("int32")] = 0
    delta_temporality: Annotated[bool, Wire("bool")] = False
    requested_metrics: Annotated[list[str], Wire("[]string")] = field(default_factory=list)
