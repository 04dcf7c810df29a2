"""Kafka's ListGroups messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import Wire


class ListGroupsRequest(Struct):
    """ListGroupsRequest, versions 0-5."""

    api_key: ClassVar[int] = 16
    versions: ClassVar[range] = range(6)
    flexible_since: ClassVar[int | None] = 3

    states_filter: Annotated[list[str], Wire("[]string", "4+")] = field(default_factory=list)
    types_filter: Annotated[list[str], Wire("[]string", "5+")] = field(default_factory=list)


class ListedGroup(Struct):
    """A part of ListGroupsResponse."""

    group_id: Annotated[str, Wire("string")] = ""
    protocol_type: Annotated[str, Wire("string")] = ""
    group_state: Annotated[str, Wire("string", "4+", ignorable=True)] = ""
    group_type: Annotated[str, Wire("string", "5+", ignorable=True)] = ""


class ListGroupsResponse(Struct):
    """ListGroupsResponse, versions 0-5."""

    api_key: ClassVar[int] = 16
    versions: ClassVar[range] = range(6)
    flexible_since: ClassVar[int | None] = 3

    throttle_time_ms: Annotated[int, Wire("int32", "1+", ignorable=True)] = 0
    error_code: Annotated[int, Wire("int16")] = 0
    groups: Annotated[list[ListedGroup], Wire("[]ListedGroup")] = field(default_factory=list)
