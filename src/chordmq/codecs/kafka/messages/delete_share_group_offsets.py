"""Kafka's DeleteShareGroupOffsets messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import NO_UUID, Wire


class DeleteShareGroupOffsetsRequestTopic(Struct):
    """A part of DeleteShareGroupOffsetsRequest."""

    topic_name: Annotated[str, Wire("string")] = ""


class DeleteShareGroupOffsetsRequest(Struct):
    """DeleteShareGroupOffsetsRequest, versions 0."""

    api_key: ClassVar[int] = 92
    versions: ClassVar[range] = range(1)
    flexible_since: ClassVar[int | None] = 0

    group_id: Annotated[str, Wire("string")] = ""
    topics: Annotated[
        list[DeleteShareGroupOffsetsRequestTopic], Wire("[]DeleteShareGroupOffsetsRequestTopic")
    ] = field(default_factory=list)


class DeleteShareGroupOffsetsResponseTopic(Struct):
    """A part of DeleteShareGroupOffsetsResponse."""

    topic_name: Annotated[str, Wire("string")] = ""
    topic_id: Annotated[bytes, Wire("uuid")] = NO_UUID
    error_code: Annotated[int, Wire("int16")] = 0
    error_message: Annotated[str | None, Wire("string", nullable="0+")] = None


class DeleteShareGroupOffsetsResponse(Struct):
    """DeleteShareGroupOffsetsResponse, versions 0."""

    api_key: ClassVar[int] = 92
    versions: ClassVar[range] = range(1)
    flexible_since: ClassVar[int | None] = 0

    throttle_time_ms: Annotated[int, Wire("int32")] = 0
    error_code: Annotated[int, Wire("int16")] = 0
    error_message: Annotated[str | None, Wire("string", nullable="0+")] = None
    responses: Annotated[
        list[DeleteShareGroupOffsetsResponseTopic], Wire("[]DeleteShareGroupOffsetsResponseTopic")
    ] = field(default_factory=list)
