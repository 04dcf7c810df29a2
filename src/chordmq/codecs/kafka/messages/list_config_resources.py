"""Kafka's ListConfigResources messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import Wire


class ListConfigResourcesRequest(Struct):
    """ListConfigResourcesRequest, versions 0-1."""

    api_key: ClassVar[int] = 74
    versions: ClassVar[range] = range(2)
    flexible_since: ClassVar[int | None] = 0

    resource_types: Annotated[list[int], Wire("[]int8", "1+")] = field(default_factory=list)


class ConfigResource(Struct):
    """A part of ListConfigResourcesResponse."""

    resource_name: Annotated[str, Wire("string")] = ""
    resource_type: Annotated[int, Wire("int8", "1+", ignorable=True)] = 16


class ListConfigResourcesResponse(Struct):
    """ListConfigResourcesResponse, versions 0-1."""

    api_key: ClassVar[int] = 74
    versions: ClassVar[range] = range(2)
    flexible_since: ClassVar[int | None] = 0

    throttle_time_ms: Annotated[int, Wire("int32")] = 0
    error_code: Annotated[int, Wire("int16")] = 0
    config_resources: Annotated[list[ConfigResource], Wire("[]ConfigResource")] = field(
        default_factory=list
    )
