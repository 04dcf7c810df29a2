"""Kafka's DescribeConfigs messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import Wire


class DescribeConfigsResource(Struct):
    """A part of DescribeConfigsRequest."""

    resource_type: Annotated[int, Wire("int8")] = 0
    resource_name: Annotated[str, Wire("string")] = ""
    configuration_keys: Annotated[list[str] | None, Wire("[]string", nullable="0+")] = field(
        default_factory=list
    )


class DescribeConfigsRequest(Struct):
    """DescribeConfigsRequest, versions 1-4."""

    api_key: ClassVar[int] = 32
    versions: ClassVar[range] = range(1, 5)
    flexible_since: ClassVar[int | None] = 4

    resources: Annotated[list[DescribeConfigsResource], Wire("[]DescribeConfigsResource")] = field(
        default_factory=list
    )
    include_synonyms: Annotated[bool, Wire("bool")] = False
    include_documentation: Annotated[bool, Wire("bool", "3+")] = False


class DescribeConfigsSynonym(Struct):
    """A part of DescribeConfigsResponse."""

    name: Annotated[str, Wire("string")] = ""
    value: Annotated[str | None, Wire("string", nullable="0+")] = ""
    source: Annotated[int, Wire("int8")] = 0


class DescribeConfigsResourceResult(Struct):
    """A part of DescribeConfigsResponse."""

    name: Annotated[str, Wire("string")] = ""
    value: Annotated[str | None, Wire("string", nullable="0+")] = ""
    read_only: Annotated[bool, Wire("bool")] = False
    config_source: Annotated[int, Wire("int8", ignorable=True)] = -1
    is_sensitive: Annotated[bool, Wire("bool")] = False
    synonyms: Annotated[
        list[DescribeConfigsSynonym], Wire("[]DescribeConfigsSynonym", ignorable=True)
    ] = field(default_factory=list)
    config_type: Annotated[int, Wire("int8", "3+", ignorable=True)] = 0
    documentation: Annotated[str | None, Wire("string", "3+", nullable="0+", ignorable=True)] = ""


class DescribeConfigsResult(Struct):
    """A part of DescribeConfigsResponse."""

    error_code: Annotated[int, Wire("int16")] = 0
    error_message: Annotated[str | None, Wire("string", nullable="0+")] = ""
    resource_type: Annotated[int, Wire("int8")] = 0
    resource_name: Annotated[str, Wire("string")] = ""
    configs: Annotated[
        list[DescribeConfigsResourceResult], Wire("[]DescribeConfigsResourceResult")
    ] = field(default_factory=list)


class DescribeConfigsResponse(Struct):
    """DescribeConfigsResponse, versions 1-4."""

    api_key: ClassVar[int] = 32
    versions: ClassVar[range] = range(1, 5)
    flexible_since: ClassVar[int | None] = 4

    throttle_time_ms: Annotated[int, Wire("int32")] = 0
    results: Annotated[list[DescribeConfigsResult], Wire("[]DescribeConfigsResult")] = field(
        default_factory=list
    )
