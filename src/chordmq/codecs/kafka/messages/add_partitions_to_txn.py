"""Kafka's AddPartitionsToTxn messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import Wire


class AddPartitionsToTxnTopic(Struct):
    """A part of AddPartitionsToTxnRequest."""

    name: Annotated[str, Wire("string")] = ""
    partitions: Annotated[list[int], Wire("[]int32")] = field(default_factory=list)


class AddPartitionsToTxnTransaction(Struct):
    """A part of AddPartitionsToTxnRequest."""

    transactional_id: Annotated[str, Wire("string", "4+")] = ""
    producer_id: Annotated[int, Wire("int64", "4+")] = 0
    producer_epoch: Annotated[int, Wire("int16", "4+")] = 0
    verify_only: Annotated[bool, Wire("bool", "4+")] = False
    topics: Annotated[list[AddPartitionsToTxnTopic], Wire("[]AddPartitionsToTxnTopic", "4+")] = (
        field(default_factory=list)
    )


class AddPartitionsToTxnRequest(Struct):
    """AddPartitionsToTxnRequest, versions 0-5."""

    api_key: ClassVar[int] = 24
    versions: ClassVar[range] = range(6)
    flexible_since: ClassVar[int | None] = 3

    transactions: Annotated[
        list[AddPartitionsToTxnTransaction], Wire("[]AddPartitionsToTxnTransaction", "4+")
    ] = field(default_factory=list)
    v3_and_below_transactional_id: Annotated[str, Wire("string", "0-3")] = ""
    v3_and_below_producer_id: Annotated[int, Wire("int64", "0-3")] = 0
    v3_and_below_producer_epoch: Annotated[int, Wire("int16", "0-3")] = 0
    v3_and_below_topics: Annotated[
        list[AddPartitionsToTxnTopic], Wire("[]AddPartitionsToTxnTopic", "0-3")
    ] = field(default_factory=list)


class AddPartitionsToTxnTopicResult(Struct):
    """A part of AddPartitionsToTxnResponse."""

    name: Annotated[str, Wire("string")] = ""
    results_by_partition: Annotated[
        list[AddPartitionsToTxnPartitionResult], Wire("[]AddPartitionsToTxnPartitionResult")
    ] = field(default_factory=list)


class AddPartitionsToTxnPartitionResult(Struct):
    """A part of AddPartitionsToTxnResponse."""

    partition_index: Annotated[int, Wire("int32")] = 0
    partition_error_code: Annotated[int, Wire("int16")] = 0


class AddPartitionsToTxnResult(Struct):
    """A part of AddPartitionsToTxnResponse."""

    transactional_id: Annotated[str, Wire("string", "4+")] = ""
    topic_results: Annotated[
        list[AddPartitionsToTxnTopicResult], Wire("[]AddPartitionsToTxnTopicResult", "4+")
    ] = field(default_factory=list)


class AddPartitionsToTxnResponse(Struct):
    """AddPartitionsToTxnResponse, versions 0-5."""

    api_key: ClassVar[int] = 24
    versions: ClassVar[range] = range(6)
    flexible_since: ClassVar[int | None] = 3

    throttle_time_ms: Annotated[int, Wire("int32")] = 0
    error_code: Annotated[int, Wire("int16", "4+", ignorable=True)] = 0
    results_by_transaction: Annotated[
        list[AddPartitionsToTxnResult], Wire("[]AddPartitionsToTxnResult", "4+")
    ] = field(default_factory=list)
    results_by_topic_v3_and_below: Annotated[
        list[AddPartitionsToTxnTopicResult], Wire("[]AddPartitionsToTxnTopicResult", "0-3")
    ] = field(default_factory=list)
