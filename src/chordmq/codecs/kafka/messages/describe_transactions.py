"""Kafka's DescribeTransactions messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import Wire


class DescribeTransactionsRequest(Struct):
    """DescribeTransactionsRequest, versions 0."""

    api_key: ClassVar[int] = 65
    versions: ClassVar[range] = range(1)
    flexible_since: ClassVar[int | None] = 0

    transactional_ids: Annotated[list[str], Wire("[]string")] = field(default_factory=list)


class TopicData(Struct):
    """A part of DescribeTransactionsResponse."""

    topic: Annotated[str, Wire("string")] = ""
    partitions: Annotated[list[int], Wire("[]int32")] = field(default_factory=list)


class TransactionState(Struct):
    """A part of DescribeTransactionsResponse."""

    error_code: Annotated[int, Wire("int16")] = 0
    transactional_id: Annotated[str, Wire("string")] = ""
    transaction_state: Annotated[str, Wire("string")] = ""
    transaction_timeout_ms: Annotated[int, Wire("int32")] = 0
    transaction_start_time_ms: Annotated[int, Wire("int64")] = 0
    producer_id: Annotated[int, Wire("int64")] = 0
    producer_epoch: Annotated[int, Wire("int16")] = 0
    topics: Annotated[list[TopicData], Wire("[]TopicData")] = field(default_factory=list)


class DescribeTransactionsResponse(Struct):
    """DescribeTransactionsResponse, versions 0."""

    api_key: ClassVar[int] = 65
    versions: ClassVar[range] = range(1)
    flexible_since: ClassVar[int | None] = 0

    throttle_time_ms: Annotated[int, Wire("int32")] = 0
    transaction_states: Annotated[list[TransactionState], Wire("[]TransactionState")] = field(
        default_factory=list
    )
