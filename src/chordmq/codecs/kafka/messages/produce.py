"""Kafka's Produce messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import NO_UUID, Wire


class PartitionProduceData(Struct):
    """A part of ProduceRequest."""

    index: Annotated[int, Wire("int32")] = 0
    records: Annotated[memoryview | bytes | None, Wire("records", nullable="0+")] = None


class TopicProduceData(Struct):
    """A part of ProduceRequest."""

    name: Annotated[str, Wire("string", "0-12", ignorable=True)] = ""
    topic_id: Annotated[bytes, Wire("uuid", "13+", ignorable=True)] = NO_UUID
    partition_data: Annotated[list[PartitionProduceData], Wire("[]PartitionProduceData")] = field(
        default_factory=list
    )


class ProduceRequest(Struct):
    """ProduceRequest, versions 3-13."""

    api_key: ClassVar[int] = 0
    versions: ClassVar[range] = range(3, 14)
    flexible_since: ClassVar[int | None] = 9

    transactional_id: Annotated[str | None, Wire("string", nullable="3+")] = None
    acks: Annotated[int, Wire("int16")] = 0
    timeout_ms: Annotated[int, Wire("int32")] = 0
    topic_data: Annotated[list[TopicProduceData], Wire("[]TopicProduceData")] = field(
        default_factory=list
    )


class BatchIndexAndErrorMessage(Struct):
    """A part of ProduceResponse."""

    batch_index: Annotated[int, Wire("int32", "8+")] = 0
    batch_index_error_message: Annotated[str | None, Wire("string", "8+", nullable="8+")] = None


class LeaderIdAndEpoch(Struct):
    """A part of ProduceResponse."""

    leader_id: Annotated[int, Wire("int32", "10+")] = -1
    leader_epoch: Annotated[int, Wire("int32", "10+")] = -1


class PartitionProduceResponse(Struct):
    """A part of ProduceResponse."""

    index: Annotated[int, Wire("int32")] = 0
    error_code: Annotated[int, Wire("int16")] = 0
    base_offset: Annotated[int, Wire("int64")] = 0
    log_append_time_ms: Annotated[int, Wire("int64", ignorable=True)] = -1
    log_start_offset: Annotated[int, Wire("int64", "5+", ignorable=True)] = -1
    record_errors: Annotated[
        list[BatchIndexAndErrorMessage], Wire("[]BatchIndexAndErrorMessage", "8+", ignorable=True)
    ] = field(default_factory=list)
    error_message: Annotated[str | None, Wire("string", "8+", nullable="8+", ignorable=True)] = None
    current_leader: Annotated[LeaderIdAndEpoch, Wire("LeaderIdAndEpoch", "10+", tag=0)] = field(
        default_factory=LeaderIdAndEpoch
    )


class TopicProduceResponse(Struct):
    """A part of ProduceResponse."""

    name: Annotated[str, Wire("string", "0-12", ignorable=True)] = ""
    topic_id: Annotated[bytes, Wire("uuid", "13+", ignorable=True)] = NO_UUID
    partition_responses: Annotated[
        list[PartitionProduceResponse], Wire("[]PartitionProduceResponse")
    ] = field(default_factory=list)


class NodeEndpoint(Struct):
    """A part of ProduceResponse."""

    node_id: Annotated[int, Wire("int32", "10+")] = 0
    host: Annotated[str, Wire("string", "10+")] = ""
    port: Annotated[int, Wire("int32", "10+")] = 0
    rack: Annotated[str | None, Wire("string", "10+", nullable="10+")] = None


class ProduceResponse(Struct):
    """ProduceResponse, versions 3-13."""

    api_key: ClassVar[int] = 0
    versions: ClassVar[range] = range(3, 14)
    flexible_since: ClassVar[int | None] = 9

    responses: Annotated[list[TopicProduceResponse], Wire("[]TopicProduceResponse")] = field(
        default_factory=list
    )
    throttle_time_ms: Annotated[int, Wire("int32", ignorable=True)] = 0
    node_endpoints: Annotated[list[NodeEndpoint], Wire("[]NodeEndpoint", "10+", tag=0)] = field(
        default_factory=list
    )
