"""Kafka's DeleteGroups messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from chordmq.codecs.kafka.wire import Wire


@dataclass(slots=True)
class DeleteGroupsRequest:
    """DeleteGroupsRequest, versions 0-2."""

    api_key: ClassVar[int] = 42
    versions: ClassVar[range] = range(3)
    flexible_since: ClassVar[int | None] = 2

    groups_names: Annotated[list[str], Wire("[]string")] = field(default_factory=list)


@dataclass(slots=True)
class DeletableGroupResult:
    """A part of DeleteGroupsResponse."""

    group_id: Annotated[str, Wire("string")] = ""
    error_code: Annotated[int, Wire("int16")] = 0


@dataclass(slots=True)
class DeleteGroupsResponse:
    """DeleteGroupsResponse, versions 0-2."""

    api_key: ClassVar[int] = 42
    versions: ClassVar[range] = range(3)
    flexible_since: ClassVar[int | None] = 2

    throttle_time_ms: Annotated[int, Wire("int32")] = 0
    results: Annotated[list[DeletableGroupResult], Wire("[]DeletableGroupResult")] = field(
        default_factory=list
    )
