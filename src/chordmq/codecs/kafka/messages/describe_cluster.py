"""Kafka's DescribeCluster messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import Wire


class DescribeClusterRequest(Struct):
    """DescribeClusterRequest, versions 0-2."""

    api_key: ClassVar[int] = 60
    versions: ClassVar[range] = range(3)
    flexible_since: ClassVar[int | None] = 0

    include_cluster_authorized_operations: Annotated[bool, Wire("bool")] = False
    endpoint_type: Annotated[int, Wire("int8", "1+")] = 1
    include_fenced_brokers: Annotated[bool, Wire("bool", "2+")] = False


class DescribeClusterBroker(Struct):
    """A part of DescribeClusterResponse."""

    broker_id: Annotated[int, Wire("int32")] = 0
    host: Annotated[str, Wire("string")] = ""
    port: Annotated[int, Wire("int32")] = 0
    rack: Annotated[str | None, Wire("string", nullable="0+")] = None
    is_fenced: Annotated[bool, Wire("bool", "2+")] = False


class DescribeClusterResponse(Struct):
    """DescribeClusterResponse, versions 0-2."""

    api_key: ClassVar[int] = 60
    versions: ClassVar[range] = range(3)
    flexible_since: ClassVar[int | None] = 0

    throttle_time_ms: Annotated[int, Wire("int32")] = 0
    error_code: Annotated[int, Wire("int16")] = 0
    error_message: Annotated[str | None, Wire("string", nullable="0+")] = None
    endpoint_type: Annotated[int, Wire("int8", "1+")] = 1
    cluster_id: Annotated[str, Wire("string")] = ""
    controller_id: Annotated[int, Wire("int32")] = -1
    brokers: Annotated[list[DescribeClusterBroker], Wire("[]DescribeClusterBroker")] = field(
        default_factory=list
    )
    cluster_authorized_operations: Annotated[int, Wire("int32")] = -2147483648
