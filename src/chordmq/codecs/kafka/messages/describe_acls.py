"""Kafka's DescribeAcls messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import Wire


class DescribeAclsRequest(Struct):
    """DescribeAclsRequest, versions 1-3."""

    api_key: ClassVar[int] = 29
    versions: ClassVar[range] = range(1, 4)
    flexible_since: ClassVar[int | None] = 2

    resource_type_filter: Annotated[int, Wire("int8")] = 0
    resource_name_filter: Annotated[str | None, Wire("string", nullable="0+")] = ""
    pattern_type_filter: Annotated[int, Wire("int8")] = 3
    principal_filter: Annotated[str | None, Wire("string", nullable="0+")] = ""
    host_filter: Annotated[str | None, Wire("string", nullable="0+")] = ""
    operation: Annotated[int, Wire("int8")] = 0
    permission_type: Annotated[int, Wire("int8")] = 0


class AclDescription(Struct):
    """A part of DescribeAclsResponse."""

    principal: Annotated[str, Wire("string")] = ""
    host: Annotated[str, Wire("string")] = ""
    operation: Annotated[int, Wire("int8")] = 0
    permission_type: Annotated[int, Wire("int8")] = 0


class DescribeAclsResource(Struct):
    """A part of DescribeAclsResponse."""

    resource_type: Annotated[int, Wire("int8")] = 0
    resource_name: Annotated[str, Wire("string")] = ""
    pattern_type: Annotated[int, Wire("int8")] = 3
    acls: Annotated[list[AclDescription], Wire("[]AclDescription")] = field(default_factory=list)


class DescribeAclsResponse(Struct):
    """DescribeAclsResponse, versions 1-3."""

    api_key: ClassVar[int] = 29
    versions: ClassVar[range] = range(1, 4)
    flexible_since: ClassVar[int | None] = 2

    throttle_time_ms: Annotated[int, Wire("int32")] = 0
    error_code: Annotated[int, Wire("int16")] = 0
    error_message: Annotated[str | None, Wire("string", nullable="0+")] = ""
    resources: Annotated[list[DescribeAclsResource], Wire("[]DescribeAclsResource")] = field(
        default_factory=list
    )
