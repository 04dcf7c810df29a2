"""Kafka's FindCoordinator messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import Wire


class FindCoordinatorRequest(Struct):
    """FindCoordinatorRequest, versions 0-6."""

    api_key: ClassVar[int] = 10
    versions: ClassVar[range] = range(7)
    flexible_since: ClassVar[int | None] = 3

    key: Annotated[str, Wire("string", "0-3")] = ""
    key_type: Annotated[int, Wire("int8", "1+")] = 0
    coordinator_keys: Annotated[list[str], Wire("[]string", "4+")] = field(default_factory=list)


class Coordinator(Struct):
    """A part of FindCoordinatorResponse."""

    key: Annotated[str, Wire("string", "4+")] = ""
    node_id: Annotated[int, Wire("int32", "4+")] = 0
    host: Annotated[str, Wire("string", "4+")] = ""
    port: Annotated[int, Wire("int32", "4+")] = 0
    error_code: Annotated[int, Wire("int16", "4+")] = 0
    error_message: Annotated[str | None, Wire("string", "4+", nullable="4+", ignorable=True)] = ""


class FindCoordinatorResponse(Struct):
    """FindCoordinatorResponse, versions 0-6."""

    api_key: ClassVar[int] = 10
    versions: ClassVar[range] = range(7)
    flexible_since: ClassVar[int | None] = 3

    throttle_time_ms: Annotated[int, Wire("int32", "1+", ignorable=True)] = 0
    error_code: Annotated[int, Wire("int16", "0-3")] = 0
    error_message: Annotated[str | None, Wire("string", "1-3", nullable="1-3", ignorable=True)] = ""
    node_id: Annotated[int, Wire("int32", "0-3")] = 0
    host: Annotated[str, Wire("string", "0-3")] = ""
    port: Annotated[int, Wire("int32", "0-3")] = 0
    coordinators: Annotated[list[Coordinator], Wire("[]Coordinator", "4+")] = field(
        default_factory=list
    )
