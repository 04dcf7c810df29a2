"""Kafka's DescribeUserScramCredentials messages, written by scripts/generate_messages.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from chordmq.codecs.kafka.wire import Wire


@dataclass(slots=True)
class UserName:
    """A part of DescribeUserScramCredentialsRequest."""

    name: Annotated[str, Wire("string")] = ""


@dataclass(slots=True)
class DescribeUserScramCredentialsRequest:
    """DescribeUserScramCredentialsRequest, versions 0."""

    api_key: ClassVar[int] = 50
    versions: ClassVar[range] = range(1)
    flexible_since: ClassVar[int | None] = 0

    users: Annotated[list[UserName] | None, Wire("[]UserName", nullable="0+")] = field(
        default_factory=list
    )


@dataclass(slots=True)
class CredentialInfo:
    """A part of DescribeUserScramCredentialsResponse."""

    mechanism: Annotated[int, Wire("int8")] = 0
    iterations: Annotated[int, Wire("int32")] = 0


@dataclass(slots=True)
class DescribeUserScramCredentialsResult:
    """A part of DescribeUserScramCredentialsResponse."""

    user: Annotated[str, Wire("string")] = ""
    error_code: Annotated[int, Wire("int16")] = 0
    error_message: Annotated[str | None, Wire("string", nullable="0+")] = ""
    credential_infos: Annotated[list[CredentialInfo], Wire("[]CredentialInfo")] = field(
        default_factory=list
    )


@dataclass(slots=True)
class DescribeUserScramCredentialsResponse:
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
