"""Kafka's DescribeProducers messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import Wire


class TopicRequest(Struct):
    """A part of DescribeProducersRequest."""

    name: Annotated[str, Wire("string")] = ""
    partition_indexes: Annotated[list[int], Wire("[]int32")] = field(default_factory=list)


class DescribeProducersRequest(Struct):
    """DescribeProducersRequest, versions 0."""

    api_key: ClassVar[int] = 61
    versions: ClassVar[range] = range(1)
    flexible_since: ClassVar[int | None] = 0

    topics: Annotated[list[TopicRequest], Wire("[]TopicRequest")] = field(default_factory=list)


class ProducerState(Struct):
    """A part of DescribeProducersResponse."""

    producer_id: Annotated[int, Wire("int64")] = 0
    producer_epoch: Annotated[int, Wire("int32")] = 0
    last_sequence: Annotated[int, Wire("int32")] = -1
    last_timestamp: Annotated[int, Wire("int64")] = -1
    coordinator_epoch: Annotated[int, Wire("int32")] = 0
    current_txn_start_offset: Annotated[int, Wire("int64")] = -1


class PartitionResponse(Struct):
    """A part of DescribeProducersResponse."""

    partition_index: Annotated[int, Wire("int32")] = 0
    error_code: Annotated[int, Wire("int16")] = 0
    error_message: Annotated[str | None, Wire("string", nullable="0+")] = None
    active_producers: Annotated[list[ProducerState], Wire("[]ProducerState")] = field(
        default_factory=list
    )


class TopicResponse(Struct):
    """A part of DescribeProducersResponse."""

    name: Annotated[str, Wire("string")] = ""
    partitions: Annotated[list[PartitionResponse], Wire("[]PartitionResponse")] = field(
        default_factory=list
    )


class DescribeProducersResponse(Struct):
    """DescribeProducersResponse, versions 0."""

    api_key: ClassVar[int] = 61
    versions: ClassVar[range] = range(1)
    flexible_since: ClassVar[int | None] = 0

    throttle_time_ms: Annotated[int, Wire("int32")] = 0
    topics: Annotated[list[TopicResponse], Wire("[]TopicResponse")] = field(default_factory=list)
