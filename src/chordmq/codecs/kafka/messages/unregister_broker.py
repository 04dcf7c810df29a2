"""Kafka's UnregisterBroker messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct

from chordmq.codecs.kafka.wire import Wire


class UnregisterBrokerRequest(Struct):
    """UnregisterBrokerRequest, versions 0."""

    api_key: ClassVar[int] = 64
    versions: ClassVar[range] = range(1)
    flexible_since: ClassVar[int | None] = 0

    broker_id: Annotated[int, Wire("int32")] = 0


class UnregisterBrokerResponse(Struct):
    """UnregisterBrokerResponse, versions 0."""

    api_key: ClassVar[int] = 64
    versions: ClassVar[range] = range(1)
    flexible_since: ClassVar[int | None] = 0

    throttle_time_ms: Annotated[int, Wire("int32")] = 0
    error_code: Annotated[int, Wire("int16")] = 0
    error_message: Annotated[str | None, Wire("string", nullable="0+")] = ""
