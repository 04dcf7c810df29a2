"""Kafka's EndTxn messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct

from chordmq.codecs.kafka.wire import Wire


class EndTxnRequest(Struct):
    """EndTxnRequest, versions 0-5."""

    api_key: ClassVar[int] = 26
    versions: ClassVar[range] = range(6)
    flexible_since: ClassVar[int | None] = 3

    transactional_id: Annotated[str, Wire("string")] = ""
    producer_id: Annotated[int, Wire("int64")] = 0
    producer_epoch: Annotated[int, Wire("int16")] = 0
    committed: Annotated[bool, Wire("bool")] = False


class EndTxnResponse(Struct):
    """EndTxnResponse, versions 0-5."""

    api_key: ClassVar[int] = 26
    versions: ClassVar[range] = range(6)
    flexible_since: ClassVar[int | None] = 3

    throttle_time_ms: Annotated[int, Wire("int32")] = 0
    error_code: Annotated[int, Wire("int16")] = 0
    producer_id: Annotated[int, Wire("int64", "5+", ignorable=True)] = -1
    producer_epoch: Annotated[int, Wire("int16", "5+", ignorable=True)] = -1
