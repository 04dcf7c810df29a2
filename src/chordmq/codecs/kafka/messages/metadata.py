"""Kafka's Metadata messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import NO_UUID, Wire


class MetadataRequestTopic(Struct):
    """A part of MetadataRequest."""

    topic_id: Annotated[bytes, Wire("uuid", "10+", ignorable=True)] = NO_UUID
    name: Annotated[str | None, Wire("string", nullable="10+")] = ""


class MetadataRequest(Struct):
    """MetadataRequest, versions 0-13."""

    api_key: ClassVar[int] = 3
    versions: ClassVar[range] = range(14)
    flexible_since: ClassVar[int | None] = 9

    topics: Annotated[
        list[MetadataRequestTopic] | None, Wire("[]MetadataRequestTopic", nullable="1+")
    ] = field(default_factory=list)
    allow_auto_topic_creation: Annotated[bool, Wire("bool", "4+")] = True
    include_cluster_authorized_operations: Annotated[bool, Wire("bool", "8-10")] = False
    include_topic_authorized_operations: Annotated[bool, Wire("bool", "8+")] = False


class MetadataResponseBroker(Struct):
    """A part of MetadataResponse."""

    node_id: Annotated[int, Wire("int32")] = 0
    host: Annotated[str, Wire("string")] = ""
    port: Annotated[int, Wire("int32")] = 0
    rack: Annotated[str | None, Wire("string", "1+", nullable="1+", ignorable=True)] = None


class MetadataResponsePartition(Struct):
    """A part of MetadataResponse."""

    error_code: Annotated[int, Wire("int16")] = 0
    partition_index: Annotated[int, Wire("int32")] = 0
    leader_id: Annotated[int, Wire("int32")] = 0
    leader_epoch: Annotated[int, Wire("int32", "7+", ignorable=True)] = -1
    replica_nodes: Annotated[list[int], Wire("[]int32")] = field(default_factory=list)
    isr_nodes: Annotated[list[int], Wire("[]int32")] = field(default_factory=list)
    offline_replicas: Annotated[list[int], Wire("[]int32", "5+", ignorable=True)] = field(
        default_factory=list
    )


class MetadataResponseTopic(Struct):
    """A part of MetadataResponse."""

    error_code: Annotated[int, Wire("int16")] = 0
    name: Annotated[str | None, Wire("string", nullable="12+")] = ""
    topic_id: Annotated[bytes, Wire("uuid", "10+", ignorable=True)] = NO_UUID
    is_internal: Annotated[bool, Wire("bool", "1+", ignorable=True)] = False
    partitions: Annotated[list[MetadataResponsePartition], Wire("[]MetadataResponsePartition")] = (
        field(default_factory=list)
    )
    topic_authorized_operations: Annotated[int, Wire("int32", "8+")] = -2147483648


class MetadataResponse(Struct):
    """MetadataResponse, versions 0-13."""

    api_key: ClassVar[int] = 3
    versions: ClassVar[range] = range(14)
    flexible_since: ClassVar[int | None] = 9

    throttle_time_ms: Annotated[int, Wire("int32", "3+", ignorable=True)] = 0
    brokers: Annotated[list[MetadataResponseBroker], Wire("[]MetadataResponseBroker")] = field(
        default_factory=list
    )
    cluster_id: Annotated[str | None, Wire("string", "2+", nullable="2+", ignorable=True)] = None
    controller_id: Annotated[int, Wire("int32", "1+", ignorable=True)] = -1
    topics: Annotated[list[MetadataResponseTopic], Wire("[]MetadataResponseTopic")] = field(
        default_factory=list
    )
    cluster_authorized_operations: Annotated[int, Wire("int32", "8-10")] = -2147483648
    error_code: Annotated[int, Wire("int16", "13+", ignorable=True)] = 0
