"""Kafka's DeleteGroups messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import Wire


class DeleteGroupsRequest(Struct):
    """DeleteGroupsRequest, versions 0-2."""

    api_key: ClassVar[int] = 42
    versions: ClassVar[range] = range(3)
    flexible_since: ClassVar[int | None] = 2

    groups_names: Annotated[list[str], Wire("[]string")] = field(default_factory=list)


class DeletableGroupResult(Struct):
    """A part of DeleteGroupsResponse."""

    group_id: Annotated[str, Wire("string")] = ""
    error_code: Annotated[int, Wire("int16")] = 0


class DeleteGroupsResponse(Struct):
    """DeleteGroupsResponse, versions 0-2."""

    api_key: ClassVar[int] = 42
    versions: ClassVar[range] = range(3)
    flexible_since: ClassVar[int | None] = 2

    throttle_time_ms: Annotated[int, Wire("int32")] = 0
    results: Annotated[list[DeletableGroupResult], Wire("[]DeletableGroupResult")] = field(
        default_factory=list
    )
