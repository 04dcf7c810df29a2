"""Kafka's DescribeClientQuotas messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import Wire


class ComponentData(Struct):
    """A part of DescribeClientQuotasRequest."""

    entity_type: Annotated[str, Wire("string")] = ""
    match_type: Annotated[int, Wire("int8")] = 0
    match: Annotated[str | None, Wire("string", nullable="0+")] = ""


class DescribeClientQuotasRequest(Struct):
    """DescribeClientQuotasRequest, versions 0-1."""

    api_key: ClassVar[int] = 48
    versions: ClassVar[range] = range(2)
    flexible_since: ClassVar[int | None] = 1

    components: Annotated[list[ComponentData], Wire("[]ComponentData")] = field(
        default_factory=list
    )
    strict: Annotated[bool, Wire("bool")] = False


class EntityData(Struct):
    """A part of DescribeClientQuotasResponse."""

    entity_type: Annotated[str, Wire("string")] = ""
    entity_name: Annotated[str | None, Wire("string", nullable="0+")] = ""


class ValueData(Struct):
    """A part of DescribeClientQuotasResponse."""

    key: Annotated[str, Wire("string")] = ""
    value: Annotated[float, Wire("float64")] = 0.0


class EntryData(Struct):
    """A part of DescribeClientQuotasResponse."""

    entity: Annotated[list[EntityData], Wire("[]EntityData")] = field(default_factory=list)
    values: Annotated[list[ValueData], Wire("[]ValueData")] = field(default_factory=list)


class DescribeClientQuotasResponse(Struct):
    """DescribeClientQuotasResponse, versions 0-1."""

    api_key: ClassVar[int] = 48
    versions: ClassVar[range] = range(2)
    flexible_since: ClassVar[int | None] = 1

    throttle_time_ms: Annotated[int, Wire("int32")] = 0
    error_code: Annotated[int, Wire("int16")] = 0
    error_message: Annotated[str | None, Wire("string", nullable="0+")] = ""
    entries: Annotated[list[EntryData] | None, Wire("[]EntryData", nullable="0+")] = field(
        default_factory=list
    )
