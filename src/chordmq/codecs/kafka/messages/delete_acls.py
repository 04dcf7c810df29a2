"""Kafka's DeleteAcls messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import Wire


class DeleteAclsFilter(Struct):
    """A part of DeleteAclsRequest."""

    resource_type_filter: Annotated[int, Wire("int8")] = 0
    resource_name_filter: Annotated[str | None, Wire("string", nullable="0+")] = ""
    pattern_type_filter: Annotated[int, Wire("int8")] = 3
    principal_filter: Annotated[str | None, Wire("string", nullable="0+")] = ""
    host_filter: Annotated[str | None, Wire("string", nullable="0+")] = ""
    operation: Annotated[int, Wire("int8")] = 0
    permission_type: Annotated[int, Wire("int8")] = 0


class DeleteAclsRequest(Struct):
    """DeleteAclsRequest, versions 1-3."""

    api_key: ClassVar[int] = 31
    versions: ClassVar[range] = range(1, 4)
    flexible_since: ClassVar[int | None] = 2

    filters: Annotated[list[DeleteAclsFilter], Wire("[]DeleteAclsFilter")] = field(
        default_factory=list
    )


class DeleteAclsMatchingAcl(Struct):
    """A part of DeleteAclsResponse."""

    error_code: Annotated[int, Wire("int16")] = 0
    error_message: Annotated[str | None, Wire("string", nullable="0+")] = ""
    resource_type: Annotated[int, Wire("int8")] = 0
    resource_name: Annotated[str, Wire("string")] = ""
    pattern_type: Annotated[int, Wire("int8")] = 3
    principal: Annotated[str, Wire("string")] = ""
    host: Annotated[str, Wire("string")] = ""
    operation: Annotated[int, Wire("int8")] = 0
    permission_type: Annotated[int, Wire("int8")] = 0


class DeleteAclsFilterResult(Struct):
    """A part of DeleteAclsResponse."""

    error_code: Annotated[int, Wire("int16")] = 0
    error_message: Annotated[str | None, Wire("string", nullable="0+")] = ""
    matching_acls: Annotated[list[DeleteAclsMatchingAcl], Wire("[]DeleteAclsMatchingAcl")] = field(
        default_factory=list
    )


class DeleteAclsResponse(Struct):
    """DeleteAclsResponse, versions 1-3."""

    api_key: ClassVar[int] = 31
    versions: ClassVar[range] = range(1, 4)
    flexible_since: ClassVar[int | None] = 2

    throttle_time_ms: Annotated[int, Wire("int32")] = 0
    filter_results: Annotated[list[DeleteAclsFilterResult], Wire("[]DeleteAclsFilterResult")] = (
        field(default_factory=list)
    )
