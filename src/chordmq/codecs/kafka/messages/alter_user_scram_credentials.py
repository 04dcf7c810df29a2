"""Kafka's AlterUserScramCredentials messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import Wire


class ScramCredentialDeletion(Struct):
    """A part of AlterUserScramCredentialsRequest."""

    name: Annotated[str, Wire("string")] = ""
    mechanism: Annotated[int, Wire("int8")] = 0


class ScramCredentialUpsertion(Struct):
    """A part of AlterUserScramCredentialsRequest."""

    name: Annotated[str, Wire("string")] = ""
    mechanism: Annotated[int, Wire("int8")] = 0
    iterations: Annotated[int, Wire("int32")] = 0
    salt: Annotated[bytes, Wire("bytes")] = b""
    salted_password: Annotated[bytes, Wire("bytes")] = b""


class AlterUserScramCredentialsRequest(Struct):
    """AlterUserScramCredentialsRequest, versions 0."""

    api_key: ClassVar[int] = 51
    versions: ClassVar[range] = range(1)
    flexible_since: ClassVar[int | None] = 0

    deletions: Annotated[list[ScramCredentialDeletion], Wire("[]ScramCredentialDeletion")] = field(
        default_factory=list
    )
    upsertions: Annotated[list[ScramCredentialUpsertion], Wire("[]ScramCredentialUpsertion")] = (
        field(default_factory=list)
    )


class AlterUserScramCredentialsResult(Struct):
    """A part of AlterUserScramCredentialsResponse."""

    user: Annotated[str, Wire("string")] = ""
    error_code: Annotated[int, Wire("int16")] = 0
    error_message: Annotated[str | None, Wire("string", nullable="0+")] = ""


class AlterUserScramCredentialsResponse(Struct):
    """AlterUserScramCredentialsResponse, versions 0."""

    api_key: ClassVar[int] = 51
    versions: ClassVar[range] = range(1)
    flexible_since: ClassVar[int | None] = 0

    throttle_time_ms: Annotated[int, Wire("int32")] = 0
    results: Annotated[
        list[AlterUserScramCredentialsResult], Wire("[]AlterUserScramCredentialsResult")
    ] = field(default_factory=list)
