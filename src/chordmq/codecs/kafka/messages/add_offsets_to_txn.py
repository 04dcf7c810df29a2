"""Kafka's AddOffsetsToTxn messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct

from chordmq.codecs.kafka.wire import Wire


class AddOffsetsToTxnRequest(Struct):
    """AddOffsetsToTxnRequest, versions 0-4."""

    api_key: ClassVar[int] = 25
    versions: ClassVar[range] = range(5)
    flexible_since: ClassVar[int | None] = 3

    transactional_id: Annotated[str, Wire("string")] = ""
    producer_id: Annotated[int, Wire("int64")] = 0
    producer_epoch: Annotated[int, Wire("int16")] = 0
    group_id: Annotated[str, Wire("string")] = ""


class AddOffsetsToTxnResponse(Struct):
    """AddOffsetsToTxnResponse, versions 0-4."""

    api_key: ClassVar[int] = 25
    versions: ClassVar[range] = range(5)
    flexible_since: ClassVar[int | None] = 3

    throttle_time_ms: Annotated[int, Wire("int32")] = 0
    error_code: Annotated[int, Wire("int16")] = 0
