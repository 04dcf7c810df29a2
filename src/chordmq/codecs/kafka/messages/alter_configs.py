"""Kafka's AlterConfigs messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import Wire


class AlterableConfig(Struct):
    """A part of AlterConfigsRequest."""

    name: Annotated[str, Wire("string")] = ""
    value: Annotated[str | None, Wire("string", nullable="0+")] = ""


class AlterConfigsResource(Struct):
    """A part of AlterConfigsRequest."""

    resource_type: Annotated[int, Wire("int8")] = 0
    resource_name: Annotated[str, Wire("string")] = ""
    configs: Annotated[list[AlterableConfig], Wire("[]AlterableConfig")] = field(
        default_factory=list
    )


class AlterConfigsRequest(Struct):
    """AlterConfigsRequest, versions 0-2."""

    api_key: ClassVar[int] = 33
    versions: ClassVar[range] = range(3)
    flexible_since: ClassVar[int | None] = 2

    resources: Annotated[list[AlterConfigsResource], Wire("[]AlterConfigsResource")] = field(
        default_factory=list
    )
    validate_only: Annotated[bool, Wire("bool")] = False


class AlterConfigsResourceResponse(Struct):
    """A part of AlterConfigsResponse."""

    error_code: Annotated[int, Wire("int16")] = 0
    error_message: Annotated[str | None, Wire("string", nullable="0+")] = ""
    resource_type: Annotated[int, Wire("int8")] = 0
    resource_name: Annotated[str, Wire("string")] = ""


class AlterConfigsResponse(Struct):
    """AlterConfigsResponse, versions 0-2."""

    api_key: ClassVar[int] = 33
    versions: ClassVar[range] = range(3)
    flexible_since: ClassVar[int | None] = 2

    throttle_time_ms: Annotated[int, Wire("int32")] = 0
    responses: Annotated[
        list[AlterConfigsResourceResponse], Wire("[]AlterConfigsResourceResponse")
    ] = field(default_factory=list)
