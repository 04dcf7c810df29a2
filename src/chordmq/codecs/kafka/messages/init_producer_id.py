"""Kafka's InitProducerId messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct

from chordmq.codecs.kafka.wire import Wire


class InitProducerIdRequest(Struct):
    """InitProducerIdRequest, versions 0-6."""

    api_key: ClassVar[int] = 22
    versions: ClassVar[range] = range(6)
    flexible_since: ClassVar[int | None] = 2

    transactional_id: Annotated[str | None, Wire("string", nullable="0+")] = ""
    transaction_timeout_ms: Annotated[int, Wire("int32")] = 0
    producer_id: Annotated[int, Wire("int64", "3+")] = -1
    producer_epoch: Annotated[int, Wire("int16", "3+")] = -1
    enable2_pc: Annotated[bool, Wire("bool", "6+")] = False
    keep_prepared_txn: Annotated[bool, Wire("bool", "6+")] = False


class InitProducerIdResponse(Struct):
    """InitProducerIdResponse, versions 0-6."""

    api_key: ClassVar[int] = 22
    versions: ClassVar[range] = range(6)
    flexible_since: ClassVar[int | None] = 2

    throttle_time_ms: Annotated[int, Wire("int32", ignorable=True)] = 0
    error_code: Annotated[int, Wire("int16")] = 0
    producer_id: Annotated[int, Wire("int64")] = -1
    producer_epoch: Annotated[int, Wire("int16")] = 0
    ongoing_txn_producer_id: Annotated[int, Wire("int64", "6+")] = -1
    ongoing_txn_producer_epoch: Annotated[int, Wire("int16", "6+")] = -1
