"""Kafka's TxnOffsetCommit messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import Wire


class TxnOffsetCommitRequestPartition(Struct):
    """A part of TxnOffsetCommitRequest."""

    partition_index: Annotated[int, Wire("int32")] = 0
    committed_offset: Annotated[int, Wire("int64")] = 0
    committed_leader_epoch: Annotated[int, Wire("int32", "2+", ignorable=True)] = -1
    committed_metadata: Annotated[str | None, Wire("string", nullable="0+")] = ""


class TxnOffsetCommitRequestTopic(Struct):
    """A part of TxnOffsetCommitRequest."""

    name: Annotated[str, Wire("string")] = ""
    partitions: Annotated[
        list[TxnOffsetCommitRequestPartition], Wire("[]TxnOffsetCommitRequestPartition")
    ] = field(default_factory=list)


class TxnOffsetCommitRequest(Struct):
    """TxnOffsetCommitRequest, versions 0-5."""

    api_key: ClassVar[int] = 28
    versions: ClassVar[range] = range(6)
    flexible_since: ClassVar[int | None] = 3

    transactional_id: Annotated[str, Wire("string")] = ""
    group_id: Annotated[str, Wire("string")] = ""
    producer_id: Annotated[int, Wire("int64")] = 0
    producer_epoch: Annotated[int, Wire("int16")] = 0
    generation_id: Annotated[int, Wire("int32", "3+")] = -1
    member_id: Annotated[str, Wire("string", "3+")] = ""
    group_instance_id: Annotated[str | None, Wire("string", "3+", nullable="3+")] = None
    topics: Annotated[list[TxnOffsetCommitRequestTopic], Wire("[]TxnOffsetCommitRequestTopic")] = (
        field(default_factory=list)
    )


class TxnOffsetCommitResponsePartition(Struct):
    """A part of TxnOffsetCommitResponse."""

    partition_index: Annotated[int, Wire("int32")] = 0
    error_code: Annotated[int, Wire("int16")] = 0


class TxnOffsetCommitResponseTopic(Struct):
    """A part of TxnOffsetCommitResponse."""

    name: Annotated[str, Wire("string")] = ""
    partitions: Annotated[
        list[TxnOffsetCommitResponsePartition], Wire("[]TxnOffsetCommitResponsePartition")
    ] = field(default_factory=list)


class TxnOffsetCommitResponse(Struct):
    """TxnOffsetCommitResponse, versions 0-5."""

    api_key: ClassVar[int] = 28
    versions: ClassVar[range] = range(6)
    flexible_since: ClassVar[int | None] = 3

    throttle_time_ms: Annotated[int, Wire("int32")] = 0
    topics: Annotated[
        list[TxnOffsetCommitResponseTopic], Wire("[]TxnOffsetCommitResponseTopic")
    ] = field(default_factory=list)
