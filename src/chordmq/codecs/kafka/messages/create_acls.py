"""Kafka's CreateAcls messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import Wire


class AclCreation(Struct):
    """A part of CreateAclsRequest."""

    resource_type: Annotated[int, Wire("int8")] = 0
    resource_name: Annotated[str, Wire("string")] = ""
    resource_pattern_type: Annotated[int, Wire("int8")] = 3
    principal: Annotated[str, Wire("string")] = ""
    host: Annotated[str, Wire("string")] = ""
    operation: Annotated[int, Wire("int8")] = 0
    permission_type: Annotated[int, Wire("int8")] = 0


class CreateAclsRequest(Struct):
    """CreateAclsRequest, versions 1-3."""

    api_key: ClassVar[int] = 30
    versions: ClassVar[range] = range(1, 4)
    flexible_since: ClassVar[int | None] = 2

    creations: Annotated[list[AclCreation], Wire("[]AclCreation")] = field(default_factory=list)


class AclCreationResult(Struct):
    """A part of CreateAclsResponse."""

    error_code: Annotated[int, Wire("int16")] = 0
    error_message: Annotated[str | None, Wire("string", nullable="0+")] = ""


class CreateAclsResponse(Struct):
    """CreateAclsResponse, versions 1-3."""

    api_key: ClassVar[int] = 30
    versions: ClassVar[range] = range(1, 4)
    flexible_since: ClassVar[int | None] = 2

    throttle_time_ms: Annotated[int, Wire("int32")] = 0
    results: Annotated[list[AclCreationResult], Wire("[]AclCreationResult")] = field(
        default_factory=list
    )
