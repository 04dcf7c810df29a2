"""Kafka's Fetch messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import NO_UUID, Wire


class ReplicaState(Struct):
    """A part of FetchRequest."""

    replica_id: Annotated[int, Wire("int32", "15+")] = -1
    replica_epoch: Annotated[int, Wire("int64", "15+")] = -1


class FetchPartition(Struct):
    """A part of FetchRequest."""

    partition: Annotated[int, Wire("int32")] = 0
    current_leader_epoch: Annotated[int, Wire("int32", "9+", ignorable=True)] = -1
    fetch_offset: Annotated[int, Wire("int64")] = 0
    last_fetched_epoch: Annotated[int, Wire("int32", "12+")] = -1
    log_start_offset: Annotated[int, Wire("int64", "5+", ignorable=True)] = -1
    partition_max_bytes: Annotated[int, Wire("int32")] = 0
    replica_directory_id: Annotated[bytes, Wire("uuid", "17+", tag=0, ignorable=True)] = NO_UUID
    high_watermark: Annotated[int, Wire("int64", "18+", tag=1, ignorable=True)] = (
        9223372036854775807
    )


class FetchTopic(Struct):
    """A part of FetchRequest."""

    topic: Annotated[str, Wire("string", "0-12", ignorable=True)] = ""
    topic_id: Annotated[bytes, Wire("uuid", "13+", ignorable=True)] = NO_UUID
    partitions: Annotated[list[FetchPartition], Wire("[]FetchPartition")] = field(
        default_factory=list
    )


class ForgottenTopic(Struct):
    """A part of FetchRequest."""

    topic: Annotated[str, Wire("string", "7-12", ignorable=True)] = ""
    topic_id: Annotated[bytes, Wire("uuid", "13+", ignorable=True)] = NO_UUID
    partitions: Annotated[list[int], Wire("[]int32", "7+")] = field(default_factory=list)


class FetchRequest(Struct):
    """FetchRequest, versions 4-18."""

    api_key: ClassVar[int] = 1
    versions: ClassVar[range] = range(4, 19)
    flexible_since: ClassVar[int | None] = 12

    cluster_id: Annotated[
        str | None, Wire("string", "12+", nullable="12+", tag=0, ignorable=True)
    ] = None
    replica_id: Annotated[int, Wire("int32", "0-14")] = -1
    replica_state: Annotated[ReplicaState, Wire("ReplicaState", "15+", tag=1)] = field(
        default_factory=ReplicaState
    )
    max_wait_ms: Annotated[int, Wire("int32")] = 0
    min_bytes: Annotated[int, Wire("int32")] = 0
    max_bytes: Annotated[int, Wire("int32", ignorable=True)] = 2147483647
    isolation_level: Annotated[int, Wire("int8", ignorable=True)] = 0
    session_id: Annotated[int, Wire("int32", "7+", ignorable=True)] = 0
    session_epoch: Annotated[int, Wire("int32", "7+", ignorable=True)] = -1
    topics: Annotated[list[FetchTopic], Wire("[]FetchTopic")] = field(default_factory=list)
    forgotten_topics_data: Annotated[list[ForgottenTopic], Wire("[]ForgottenTopic", "7+")] = field(
        default_factory=list
    )
    rack_id: Annotated[str, Wire("string", "11+", ignorable=True)] = ""


class EpochEndOffset(Struct):
    """A part of FetchResponse."""

    epoch: Annotated[int, Wire("int32", "12+")] = -1
    end_offset: Annotated[int, Wire("int64", "12+")] = -1


class LeaderIdAndEpoch(Struct):
    """A part of FetchResponse."""

    leader_id: Annotated[int, Wire("int32", "12+")] = -1
    leader_epoch: Annotated[int, Wire("int32", "12+")] = -1


class SnapshotId(Struct):
    """A part of FetchResponse."""

    end_offset: Annotated[int, Wire("int64")] = -1
    epoch: Annotated[int, Wire("int32")] = -1


class AbortedTransaction(Struct):
    """A part of FetchResponse."""

    producer_id: Annotated[int, Wire("int64")] = 0
    first_offset: Annotated[int, Wire("int64")] = 0


class PartitionData(Struct):
    """A part of FetchResponse."""

    partition_index: Annotated[int, Wire("int32")] = 0
    error_code: Annotated[int, Wire("int16")] = 0
    high_watermark: Annotated[int, Wire("int64")] = 0
    last_stable_offset: Annotated[int, Wire("int64", ignorable=True)] = -1
    log_start_offset: Annotated[int, Wire("int64", "5+", ignorable=True)] = -1
    diverging_epoch: Annotated[EpochEndOffset, Wire("EpochEndOffset", "12+", tag=0)] = field(
        default_factory=EpochEndOffset
    )
    current_leader: Annotated[LeaderIdAndEpoch, Wire("LeaderIdAndEpoch", "12+", tag=1)] = field(
        default_factory=LeaderIdAndEpoch
    )
    snapshot_id: Annotated[SnapshotId, Wire("SnapshotId", "12+", tag=2)] = field(
        default_factory=SnapshotId
    )
    aborted_transactions: Annotated[
        list[AbortedTransaction] | None, Wire("[]AbortedTransaction", nullable="4+", ignorable=True)
    ] = field(default_factory=list)
    preferred_read_replica: Annotated[int, Wire("int32", "11+")] = -1
    records: Annotated[memoryview | bytes | None, Wire("records", nullable="0+")] = None


class FetchableTopicResponse(Struct):
    """A part of FetchResponse."""

    topic: Annotated[str, Wire("string", "0-12", ignorable=True)] = ""
    topic_id: Annotated[bytes, Wire("uuid", "13+", ignorable=True)] = NO_UUID
    partitions: Annotated[list[PartitionData], Wire("[]PartitionData")] = field(
        default_factory=list
    )


class NodeEndpoint(Struct):
    """A part of FetchResponse."""

    node_id: Annotated[int, Wire("int32", "16+")] = 0
    host: Annotated[str, Wire("string", "16+")] = ""
    port: Annotated[int, Wire("int32", "16+")] = 0
    rack: Annotated[str | None, Wire("string", "16+", nullable="16+")] = None


class FetchResponse(Struct):
    """FetchResponse, versions 4-18."""

    api_key: ClassVar[int] = 1
    versions: ClassVar[range] = range(4, 19)
    flexible_since: ClassVar[int | None] = 12

    throttle_time_ms: Annotated[int, Wire("int32", ignorable=True)] = 0
    error_code: Annotated[int, Wire("int16", "7+", ignorable=True)] = 0
    session_id: Annotated[int, Wire("int32", "7+")] = 0
    responses: Annotated[list[FetchableTopicResponse], Wire("[]FetchableTopicResponse")] = field(
        default_factory=list
    )
    node_endpoints: Annotated[list[NodeEndpoint], Wire("[]NodeEndpoint", "16+", tag=0)] = field(
        default_factory=list
    )
