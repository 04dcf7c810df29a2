"""Kafka's ShareAcknowledge messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import NO_UUID, Wire


class AcknowledgementBatch(Struct):
    """A part of ShareAcknowledgeRequest."""

    first_offset: Annotated[int, Wire("int64")] = 0
    last_offset: Annotated[int, Wire("int64")] = 0
    acknowledge_types: Annotated[list[int], Wire("[]int8")] = field(default_factory=list)


class AcknowledgePartition(Struct):
    """A part of ShareAcknowledgeRequest."""

    partition_index: Annotated[int, Wire("int32")] = 0
    acknowledgement_batches: Annotated[
        list[AcknowledgementBatch], Wire("[]AcknowledgementBatch")
    ] = field(default_factory=list)


class AcknowledgeTopic(Struct):
    """A part of ShareAcknowledgeRequest."""

    topic_id: Annotated[bytes, Wire("uuid")] = NO_UUID
    partitions: Annotated[list[AcknowledgePartition], Wire("[]AcknowledgePartition")] = field(
        default_factory=list
    )


class ShareAcknowledgeRequest(Struct):
    """ShareAcknowledgeRequest, versions 1-2."""

    api_key: ClassVar[int] = 79
    versions: ClassVar[range] = range(1, 3)
    flexible_since: ClassVar[int | None] = 0

    group_id: Annotated[str | None, Wire("string", nullable="0+")] = None
    member_id: Annotated[str | None, Wire("string", nullable="0+")] = ""
    share_session_epoch: Annotated[int, Wire("int32")] = 0
    is_renew_ack: Annotated[bool, Wire("bool", "2+")] = False
    topics: Annotated[list[AcknowledgeTopic], Wire("[]AcknowledgeTopic")] = field(
        default_factory=list
    )


class LeaderIdAndEpoch(Struct):
    """A part of ShareAcknowledgeResponse."""

    leader_id: Annotated[int, Wire("int32")] = 0
    leader_epoch: Annotated[int, Wire("int32")] = 0


class PartitionData(Struct):
    """A part of ShareAcknowledgeResponse."""

    partition_index: Annotated[int, Wire("int32")] = 0
    error_code: Annotated[int, Wire("int16")] = 0
    error_message: Annotated[str | None, Wire("string", nullable="0+")] = None
    current_leader: Annotated[LeaderIdAndEpoch, Wire("LeaderIdAndEpoch")] = field(
        default_factory=LeaderIdAndEpoch
    )


class ShareAcknowledgeTopicResponse(Struct):
    """A part of ShareAcknowledgeResponse."""

    topic_id: Annotated[bytes, Wire("uuid")] = NO_UUID
    partitions: Annotated[list[PartitionData], Wire("[]PartitionData")] = field(
        default_factory=list
    )


class NodeEndpoint(Struct):
    """A part of ShareAcknowledgeResponse."""

    node_id: Annotated[int, Wire("int32")] = 0
    host: Annotated[str, Wire("string")] = ""
    port: Annotated[int, Wire("int32")] = 0
    rack: Annotated[str | None, Wire("string", nullable="0+")] = None


class ShareAcknowledgeResponse(Struct):
    """ShareAcknowledgeResponse, versions 1-2."""

    api_key: ClassVar[int] = 79
    versions: ClassVar[range] = range(1, 3)
    flexible_since: ClassVar[int | None] = 0

    throttle_time_ms: Annotated[int, Wire("int32")] = 0
    error_code: Annotated[int, Wire("int16")] = 0
    error_message: Annotated[str | None, Wire("string", nullable="0+")] = None
    acquisition_lock_timeout_ms: Annotated[int, Wire("int32", "2+", ignorable=True)] = 0
    responses: Annotated[
        list[ShareAcknowledgeTopicResponse], Wire("[]ShareAcknowledgeTopicResponse")
    ] = field(default_factory=list)
    node_endpoints: Annotated[list[NodeEndpoint], Wire("[]NodeEndpoint")] = field(
        default_factory=list
    )
