"""Kafka's UpdateFeatures messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import Wire


class FeatureUpdateKey(Struct):
    """A part of UpdateFeaturesRequest."""

    feature: Annotated[str, Wire("string")] = ""
    max_version_level: Annotated[int, Wire("int16")] = 0
    allow_downgrade: Annotated[bool, Wire("bool", "0")] = False
    upgrade_type: Annotated[int, Wire("int8", "1+")] = 1


class UpdateFeaturesRequest(Struct):
    """UpdateFeaturesRequest, versions 0-2."""

    api_key: ClassVar[int] = 57
    versions: ClassVar[range] = range(3)
    flexible_since: ClassVar[int | None] = 0

    timeout_ms: Annotated[int, Wire("int32")] = 60000
    feature_updates: Annotated[list[FeatureUpdateKey], Wire("[]FeatureUpdateKey")] = field(
        default_factory=list
    )
    validate_only: Annotated[bool, Wire("bool", "1+")] = False


class UpdatableFeatureResult(Struct):
    """A part of UpdateFeaturesResponse."""

    feature: Annotated[str, Wire("string")] = ""
    error_code: Annotated[int, Wire("int16")] = 0
    error_message: Annotated[str | None, Wire("string", nullable="0+")] = ""


class UpdateFeaturesResponse(Struct):
    """UpdateFeaturesResponse, versions 0-2."""

    api_key: ClassVar[int] = 57
    versions: ClassVar[range] = range(3)
    flexible_since: ClassVar[int | None] = 0

    throttle_time_ms: Annotated[int, Wire("int32")] = 0
    error_code: Annotated[int, Wire("int16")] = 0
    error_message: Annotated[str | None, Wire("string", nullable="0+")] = ""
    results: Annotated[
        list[UpdatableFeatureResult], Wire("[]UpdatableFeatureResult", "0-1", ignorable=True)
    ] = field(default_factory=list)
