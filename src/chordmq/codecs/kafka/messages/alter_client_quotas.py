"""Kafka's AlterClientQuotas messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import Wire


class EntityData(Struct):
    """A part of AlterClientQuotasRequest."""

    entity_type: Annotated[str, Wire("string")] = ""
    entity_name: Annotated[str | None, Wire("string", nullable="0+")] = ""


class OpData(Struct):
    """A part of AlterClientQuotasRequest."""

    key: Annotated[str, Wire("string")] = ""
    value: Annotated[float, Wire("float64")] = 0.0
    remove: Annotated[bool, Wire("bool")] = False


class AlterClientQuotasRequestEntryData(Struct):
    """A part of AlterClientQuotasRequest."""

    entity: Annotated[list[EntityData], Wire("[]EntityData")] = field(default_factory=list)
    ops: Annotated[list[OpData], Wire("[]OpData")] = field(default_factory=list)


class AlterClientQuotasRequest(Struct):
    """AlterClientQuotasRequest, versions 0-1."""

    api_key: ClassVar[int] = 49
    versions: ClassVar[range] = range(2)
    flexible_since: ClassVar[int | None] = 1

    entries: Annotated[
        list[AlterClientQuotasRequestEntryData], Wire("[]AlterClientQuotasRequestEntryData")
    ] = field(default_factory=list)
    validate_only: Annotated[bool, Wire("bool")] = False


class AlterClientQuotasResponseEntryData(Struct):
    """A part of AlterClientQuotasResponse."""

    error_code: Annotated[int, Wire("int16")] = 0
    error_message: Annotated[str | None, Wire("string", nullable="0+")] = ""
    entity: Annotated[list[EntityData], Wire("[]EntityData")] = field(default_factory=list)


class AlterClientQuotasResponse(Struct):
    """AlterClientQuotasResponse, versions 0-1."""

    api_key: ClassVar[int] = 49
    versions: ClassVar[range] = range(2)
    flexible_since: ClassVar[int | None] = 1

    throttle_time_ms: Annotated[int, Wire("int32")] = 0
    entries: Annotated[
        list[AlterClientQuotasResponseEntryData], Wire("[]AlterClientQuotasResponseEntryData")
    ] = field(default_factory=list)
