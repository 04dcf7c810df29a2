"""Kafka's DeleteTopics messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import NO_UUID, Wire


class DeleteTopicState(Struct):
    """A part of DeleteTopicsRequest."""

    name: Annotated[str | None, Wire("string", "6+", nullable="6+")] = None
    topic_id: Annotated[bytes, Wire("uuid", "6+")] = NO_UUID


class DeleteTopicsRequest(Struct):
    """DeleteTopicsRequest, versions 1-6."""

    api_key: ClassVar[int] = 20
    versions: ClassVar[range] = range(1, 7)
    flexible_since: ClassVar[int | None] = 4

    topics: Annotated[list[DeleteTopicState], Wire("[]DeleteTopicState", "6+")] = field(
        default_factory=list
    )
    topic_names: Annotated[list[str], Wire("[]string", "0-5", ignorable=True)] = field(
        default_factory=list
    )
    timeout_ms: Annotated[int, Wire("int32")] = 0


class DeletableTopicResult(Struct):
    """A part of DeleteTopicsResponse."""

    name: Annotated[str | None, Wire("string", nullable="6+")] = ""
    topic_id: Annotated[bytes, Wire("uuid", "6+", ignorable=True)] = NO_UUID
    error_code: Annotated[int, Wire("int16")] = 0
    error_message: Annotated[str | None, Wire("string", "5+", nullable="5+", ignorable=True)] = None


class DeleteTopicsResponse(Struct):
    """DeleteTopicsResponse, versions 1-6."""

    api_key: ClassVar[int] = 20
    versions: ClassVar[range] = range(1, 7)
    flexible_since: ClassVar[int | None] = 4

    throttle_time_ms: Annotated[int, Wire("int32", ignorable=True)] = 0
    responses: Annotated[list[DeletableTopicResult], Wire("[]DeletableTopicResult")] = field(
        default_factory=list
    )
