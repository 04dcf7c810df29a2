"""Kafka's IncrementalAlterConfigs messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import Wire


class AlterableConfig(Struct):
    """A part of IncrementalAlterConfigsRequest."""

    name: Annotated[str, Wire("string")] = ""
    config_operation: Annotated[int, Wire("int8")] = 0
    value: Annotated[str | None, Wire("string", nullable="0+")] = ""


class AlterConfigsResource(Struct):
    """A part of IncrementalAlterConfigsRequest."""

    resource_type: Annotated[int, Wire("int8")] = 0
    resource_name: Annotated[str, Wire("string")] = ""
    configs: Annotated[list[AlterableConfig], Wire("[]AlterableConfig")] = field(
        default_factory=list
    )


class IncrementalAlterConfigsRequest(Struct):
    """IncrementalAlterConfigsRequest, versions 0-1."""

    api_key: ClassVar[int] = 44
    versions: ClassVar[range] = range(2)
    flexible_since: ClassVar[int | None] = 1

    resources: Annotated[list[AlterConfigsResource], Wire("[]AlterConfigsResource")] = field(
        default_factory=list
    )
    validate_only: Annotated[bool, Wire("bool")] = False


class AlterConfigsResourceResponse(Struct):
    """A part of IncrementalAlterConfigsResponse."""

    error_code: Annotated[int, Wire("int16")] = 0
    error_message: Annotated[str | None, Wire("string", nullable="0+")] = ""
    resource_type: Annotated[int, Wire("int8")] = 0
    resource_name: Annotated[str, Wire("string")] = ""


class IncrementalAlterConfigsResponse(Struct):
    """IncrementalAlterConfigsResponse, versions 0-1."""

    api_key: ClassVar[int] = 44
    versions: ClassVar[range] = range(2)
    flexible_since: ClassVar[int | None] = 1

    throttle_time_ms: Annotated[int, Wire("int32")] = 0
    responses: Annotated[
        list[AlterConfigsResourceResponse], Wire("[]AlterConfigsResourceResponse")
    ] = field(default_factory=list)
