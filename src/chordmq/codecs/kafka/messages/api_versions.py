"""Kafka's ApiVersions messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import Wire


class ApiVersionsRequest(Struct):
    """ApiVersionsRequest, versions 0-4."""

    api_key: ClassVar[int] = 18
    versions: ClassVar[range] = range(5)
    flexible_since: ClassVar[int | None] = 3

    client_software_name: Annotated[str, Wire("string", "3+", ignorable=True)] = ""
    client_software_version: Annotated[str, Wire("string", "3+", ignorable=True)] = ""


class ApiVersion(Struct):
    """A part of ApiVersionsResponse."""

    api_key: Annotated[int, Wire("int16")] = 0
    min_version: Annotated[int, Wire("int16")] = 0
    max_version: Annotated[int, Wire("int16")] = 0


class SupportedFeatureKey(Struct):
    """A part of ApiVersionsResponse."""

    name: Annotated[str, Wire("string", "3+")] = ""
    min_version: Annotated[int, Wire("int16", "3+")] = 0
    max_version: Annotated[int, Wire("int16", "3+")] = 0


class FinalizedFeatureKey(Struct):
    """A part of ApiVersionsResponse."""

    name: Annotated[str, Wire("string", "3+")] = ""
    max_version_level: Annotated[int, Wire("int16", "3+")] = 0
    min_version_level: Annotated[int, Wire("int16", "3+")] = 0


class ApiVersionsResponse(Struct):
    """ApiVersionsResponse, versions 0-4."""

    api_key: ClassVar[int] = 18
    versions: ClassVar[range] = range(5)
    flexible_since: ClassVar[int | None] = 3

    error_code: Annotated[int, Wire("int16")] = 0
    api_keys: Annotated[list[ApiVersion], Wire("[]ApiVersion")] = field(default_factory=list)
    throttle_time_ms: Annotated[int, Wire("int32", "1+", ignorable=True)] = 0
    supported_features: Annotated[
        list[SupportedFeatureKey], Wire("[]SupportedFeatureKey", "3+", tag=0, ignorable=True)
    ] = field(default_factory=list)
    finalized_features_epoch: Annotated[int, Wire("int64", "3+", tag=1, ignorable=True)] = -1
    finalized_features: Annotated[
        list[FinalizedFeatureKey], Wire("[]FinalizedFeatureKey", "3+", tag=2, ignorable=True)
    ] = field(default_factory=list)
    zk_migration_ready: Annotated[bool, Wire("bool", "3+", tag=3, ignorable=True)] = False
