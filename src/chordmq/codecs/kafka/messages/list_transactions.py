"""Kafka's ListTransactions messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import Wire


class ListTransactionsRequest(Struct):
    """ListTransactionsRequest, versions 0-2."""

    api_key: ClassVar[int] = 66
    versions: ClassVar[range] = range(3)
    flexible_since: ClassVar[int | None] = 0

    state_filters: Annotated[list[str], Wire("[]string")] = field(default_factory=list)
    producer_id_filters: Annotated[list[int], Wire("[]int64")] = field(default_factory=list)
    duration_filter: Annotated[int, Wire("int64", "1+")] = -1
    transactional_id_pattern: Annotated[str | None, Wire("string", "2+", nullable="2+")] = None


class TransactionState(Struct):
    """A part of ListTransactionsResponse."""

    transactional_id: Annotated[str, Wire("string")] = ""
    producer_id: Annotated[int, Wire("int64")] = 0
    transaction_state: Annotated[str, Wire("string")] = ""


class ListTransactionsResponse(Struct):
    """ListTransactionsResponse, versions 0-2."""

    api_key: ClassVar[int] = 66
    versions: ClassVar[range] = range(3)
    flexible_since: ClassVar[int | None] = 0

    throttle_time_ms: Annotated[int, Wire("int32")] = 0
    error_code: Annotated[int, Wire("int16")] = 0
    unknown_state_filters: Annotated[list[str], Wire("[]string")] = field(default_factory=list)
    transaction_states: Annotated[list[TransactionState], Wire("[]TransactionState")] = field(
        default_factory=list
    )
