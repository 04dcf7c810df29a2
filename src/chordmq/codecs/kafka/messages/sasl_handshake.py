"""Kafka's SaslHandshake messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import Wire


class SaslHandshakeRequest(Struct):
    """SaslHandshakeRequest, versions 0-1."""

    api_key: ClassVar[int] = 17
    versions: ClassVar[range] = range(2)
    flexible_since: ClassVar[int | None] = None

    mechanism: Annotated[str, Wire("string")] = ""


class SaslHandshakeResponse(Struct):
    """SaslHandshakeResponse, versions 0-1."""

    api_key: ClassVar[int] = 17
    versions: ClassVar[range] = range(2)
    flexible_since: ClassVar[int | None] = None

    error_code: Annotated[int, Wire("int16")] = 0
    mechanisms: Annotated[list[str], Wire("[]string")] = field(default_factory=list)
