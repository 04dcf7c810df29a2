"""Kafka's ShareFetch messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import NO_UUID, Wire


class AcknowledgementBatch(Struct):
    """A part of ShareFetchRequest."""

    first_offset: Annotated[int, Wire("int64")] = 0
    last_offset: Annotated[int, Wire("int64")] = 0
    acknowledge_types: Annotated[list[int], Wire("[]int8")] = field(default_factory=list)


class FetchPartition(Struct):
    """A part of ShareFetchRequest."""

    partition_index: Annotated[int, Wire("int32")] = 0
    partition_max_bytes: Annotated[int, Wire("int32", "0")] = 0
    acknowledgement_batches: Annotated[
        list[AcknowledgementBatch], Wire("[]AcknowledgementBatch")
    ] = field(default_factory=list)


class FetchTopic(Struct):
    """A part of ShareFetchRequest."""

    topic_id: Annotated[bytes, Wire("uuid")] = NO_UUID
    partitions: Annotated[list[FetchPartition], Wire("[]FetchPartition")] = field(
        default_factory=list
    )


class ForgottenTopic(Struct):
    """A part of ShareFetchRequest."""

    topic_id: Annotated[bytes, Wire("uuid")] = NO_UUID
    partitions: Annotated[list[int], Wire("[]int32")] = field(default_factory=list)


class ShareFetchRequest(Struct):
    """ShareFetchRequest, versions 1-2."""

    api_key: ClassVar[int] = 78
    versions: ClassVar[range] = range(1, 3)
    flexible_since: ClassVar[int | None] = 0

    group_id: Annotated[str | None, Wire("string", nullable="0+")] = None
    member_id: Annotated[str | None, Wire("string", nullable="0+")] = ""
    share_session_epoch: Annotated[int, Wire("int32")] = 0
    max_wait_ms: Annotated[int, Wire("int32")] = 0
    min_bytes: Annotated[int, Wire("int32")] = 0
    max_bytes: Annotated[int, Wire("int32")] = 2147483647
    max_records: Annotated[int, Wire("int32")] = 0
    batch_size: Annotated[int, Wire("int32")] = 0
    share_acquire_mode: Annotated[int, Wire("int8", "2+", ignorable=True)] = 0
    is_renew_ack: Annotated[bool, Wire("bool", "2+")] = False
    topics: Annotated[list[FetchTopic], Wire("[]FetchTopic")] = field(default_factory=list)
    forgotten_topics_data: Annotated[list[ForgottenTopic], Wire("[]ForgottenTopic")] = field(
        default_factory=list
    )


class LeaderIdAndEpoch(Struct):
    """A part of ShareFetchResponse."""

    leader_id: Annotated[int, Wire("int32")] = 0
    leader_epoch: Annotated[int, Wire("int32")] = 0


class AcquiredRecords(Struct):
    """A part of ShareFetchResponse."""

    first_offset: Annotated[int, Wire("int64")] = 0
    last_offset: Annotated[int, Wire("int64")] = 0
    delivery_count: Annotated[int, Wire("int16")] = 0


class PartitionData(Struct):
    """A part of ShareFetchResponse."""

    partition_index: Annotated[int, Wire("int32")] = 0
    error_code: Annotated[int, Wire("int16")] = 0
    error_message: Annotated[str | None, Wire("string", nullable="0+")] = None
    acknowledge_error_code: Annotated[int, Wire("int16")] = 0
    acknowledge_error_message: Annotated[str | None, Wire("string", nullable="0+")] = None
    current_leader: Annotated[LeaderIdAndEpoch, Wire("LeaderIdAndEpoch")] = field(
        default_factory=LeaderIdAndEpoch
    )
    records: Annotated[memoryview | bytes | None, Wire("records", nullable="0")] = None
    acquired_records: Annotated[list[AcquiredRecords], Wire("[]AcquiredRecords")] = field(
        default_factory=list
    )


class ShareFetchableTopicResponse(Struct):
    """A part of ShareFetchResponse."""

    topic_id: Annotated[bytes, Wire("uuid")] = NO_UUID
    partitions: Annotated[list[PartitionData], Wire("[]PartitionData")] = field(
        default_factory=list
    )


class NodeEndpoint(Struct):
    """A part of ShareFetchResponse."""

    node_id: Annotated[int, Wire("int32")] = 0
    host: Annotated[str, Wire("string")] = ""
    port: Annotated[int, Wire("int32")] = 0
    rack: Annotated[str | None, Wire("string", nullable="0+")] = None


class ShareFetchResponse(Struct):
    """ShareFetchResponse, versions 1-2."""

    api_key: ClassVar[int] = 78
    versions: ClassVar[range] = range(1, 3)
    flexible_since: ClassVar[int | None] = 0

    throttle_time_ms: Annotated[int, Wire("int32")] = 0
    error_code: Annotated[int, Wire("int16")] = 0
    error_message: Annotated[str | None, Wire("string", nullable="0+")] = None
    acquisition_lock_timeout_ms: Annotated[int, Wire("int32")] = 0
    responses: Annotated[
        list[ShareFetchableTopicResponse], Wire("[]ShareFetchableTopicResponse")
    ] = field(default_factory=list)
    node_endpoints: Annotated[list[NodeEndpoint], Wire("[]NodeEndpoint")] = field(
        default_factory=list
    )
