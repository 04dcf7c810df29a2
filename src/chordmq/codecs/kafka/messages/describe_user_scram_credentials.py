"""Kafka's DescribeUserScramCredentials messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct, field

from chordmq.codecs.kafka.wire import Wire


class UserName(Struct):
    """A part of DescribeUserScramCredentialsRequest."""

    name: Annotated[str, Wire("string")] = ""


class DescribeUserScramCredentialsRequest(Struct):
    """DescribeUserScramCredentialsRequest, versions 0."""

    api_key: ClassVar[int] = 50
    versions: ClassVar[range] = range(1)
    flexible_since: ClassVar[int | None] = 0

    users: Annotated[list[UserName] | None, Wire("[]UserName", nullable="0+")] = field(
        default_factory=list
    )


class CredentialInfo(Struct):
    """A part of DescribeUserScramCredentialsResponse."""

    mechanism: Annotated[int, Wire("int8")] = 0
    iterations: Annotated[int, Wire("int32")] = 0


class DescribeUserScramCredentialsResult(Struct):
    """A part of DescribeUserScramCredentialsResponse."""

    user: Annotated[str, Wire("string")] = ""
    error_code: Annotated[int, Wire("int16")] = 0
    error_message: Annotated[str | None, Wire("string", nullable="0+")] = ""
    credential_infos: Annotated[list[CredentialInfo], Wire("[]CredentialInfo")] = field(
        default_factory=list
    )


class DescribeUserScramCredentialsResponse(Struct):
    """DescribeUserScramCredentialsResponse, versions 0."""

    api_key: ClassVar[int] = 50
    versions: ClassVar[range] = range(1)
    flexible_since: ClassVar[int | None] = 0

    throttle_time_ms: Annotated[int, Wire("int32")] = 0
    error_code: Annotated[int, Wire("int16")] = 0
    error_message: Annotated[str | None, Wire("string", nullable="0+")] = ""
    results: Annotated[
        list[DescribeUserScramCredentialsResult], Wire("[]DescribeUserScramCredentialsResult")
    ] = field(default_factory=list)
