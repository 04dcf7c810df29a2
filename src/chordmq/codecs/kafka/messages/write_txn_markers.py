"""Kafka's WriteTxnMarkers messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import Wire


class WritableTxnMarkerTopic(Struct):
    """A part of WriteTxnMarkersRequest."""

    name: Annotated[str, Wire("string")] = ""
    partition_indexes: Annotated[list[int], Wire("[]int32")] = field(default_factory=list)


class WritableTxnMarker(Struct):
    """A part of WriteTxnMarkersRequest."""

    producer_id: Annotated[int, Wire("int64")] = 0
    producer_epoch: Annotated[int, Wire("int16")] = 0
    transaction_result: Annotated[bool, Wire("bool")] = False
    topics: Annotated[list[WritableTxnMarkerTopic], Wire("[]WritableTxnMarkerTopic")] = field(
        default_factory=list
    )
    coordinator_epoch: Annotated[int, Wire("int32")] = 0
    transaction_version: Annotated[int, Wire("int8", "2+", ignorable=True)] = 0


class WriteTxnMarkersRequest(Struct):
    """WriteTxnMarkersRequest, versions 1-2."""

    api_key: ClassVar[int] = 27
    versions: ClassVar[range] = range(1, 3)
    flexible_since: ClassVar[int | None] = 1

    markers: Annotated[list[WritableTxnMarker], Wire("[]WritableTxnMarker")] = field(
        default_factory=list
    )


class WritableTxnMarkerPartitionResult(Struct):
    """A part of WriteTxnMarkersResponse."""

    partition_index: Annotated[int, Wire("int32")] = 0
    error_code: Annotated[int, Wire("int16")] = 0


class WritableTxnMarkerTopicResult(Struct):
    """A part of WriteTxnMarkersResponse."""

    name: Annotated[str, Wire("string")] = ""
    partitions: Annotated[
        list[WritableTxnMarkerPartitionResult], Wire("[]WritableTxnMarkerPartitionResult")
    ] = field(default_factory=list)


class WritableTxnMarkerResult(Struct):
    """A part of WriteTxnMarkersResponse."""

    producer_id: Annotated[int, Wire("int64")] = 0
    topics: Annotated[
        list[WritableTxnMarkerTopicResult], Wire("[]WritableTxnMarkerTopicResult")
    ] = field(default_factory=list)


class WriteTxnMarkersResponse(Struct):
    """WriteTxnMarkersResponse, versions 1-2."""

    api_key: ClassVar[int] = 27
    versions: ClassVar[range] = range(1, 3)
    flexible_since: ClassVar[int | None] = 1

    markers: Annotated[list[WritableTxnMarkerResult], Wire("[]WritableTxnMarkerResult")] = field(
        default_factory=list
    )
