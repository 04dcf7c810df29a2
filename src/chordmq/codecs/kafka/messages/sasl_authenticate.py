"""Kafka's SaslAuthenticate messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct

from chordmq.codecs.kafka.wire import Wire


class SaslAuthenticateRequest(Struct):
    """SaslAuthenticateRequest, versions 0-2."""

    api_key: ClassVar[int] = 36
    versions: ClassVar[range] = range(3)
    flexible_since: ClassVar[int | None] = 2

    auth_bytes: Annotated[bytes, Wire("bytes")] = b""


class SaslAuthenticateResponse(Struct):
    """SaslAuthenticateResponse, versions 0-2."""

    api_key: ClassVar[int] = 36
    versions: ClassVar[range] = range(3)
    flexible_since: ClassVar[int | None] = 2

    error_code: Annotated[int, Wire("int16")] = 0
    error_message: Annotated[str | None, Wire("string", nullable="0+")] = ""
    auth_bytes: Annotated[bytes, Wire("bytes")] = b""
    session_lifetime_ms: Annotated[int, Wire("int64", "1+", ignorable=True)] = 0
