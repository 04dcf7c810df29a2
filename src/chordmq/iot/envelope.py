"""The message envelope: what it says of a message, whether it is right, and how one is made (pure).

`schema/envelope.json` says the same for programs in other languages.
"""

import base64
import re
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Raw

from chordmq.errors import InvalidEnvelope

VERSION = "1.0"
ID_LENGTH_MAX = 200
NAME_LENGTH_MAX = 1024

Id = Annotated[str, Meta(min_length=1, max_length=ID_LENGTH_MAX)]
Name = Annotated[str, Meta(min_length=1, max_length=NAME_LENGTH_MAX)]

_VERSION = re.compile(r"1(\.[0-9]{1,9})?")
_FAULTS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class MessageType(StrEnum):
    """What a message is for."""

    EVENT = "event"
    """Something has happened."""
    COMMAND = "command"
    """Something is to be done."""
    RESPONSE = "response"
    """What came of a command."""
    NOTIFICATION = "notification"
    """Somebody should know."""


class Metadata(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What is known of a message; fields of later versions are let through."""

    message_id: Id
    timestamp: Annotated[datetime, Meta(tz=True)]
    topic: Name
    source: Name
    correlation_id: Id | None = None
    message_type: MessageType
    version: str
    payload_encoding: Literal["base64"] | msgspec.UnsetType = msgspec.UNSET


class Envelope(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message with what is known of it."""

    metadata: Metadata
    payload: Raw

    @property
    def content(self) -> bytes:
        """Return the message itself, as it was before it was wrapped."""
        if self.metadata.payload_encoding == "base64":
            return base64.b64decode(msgspec.json.decode(self.payload, type=str))
        return bytes(self.payload)


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """What an envelope says of a message that came without one."""

    message_id: str
    now_ms: int
    topic: str
    source: str
    correlation_id: str | None = None
    message_type: MessageType = MessageType.EVENT


_DECODER = msgspec.json.Decoder(Envelope)


def read(data: bytes) -> Envelope:
    """Return the envelope, or raise InvalidEnvelope that says what is wrong with it."""
    try:
        envelope = _DECODER.decode(data)
        if envelope.metadata.payload_encoding == "base64":
            base64.b64decode(msgspec.json.decode(envelope.payload, type=str), validate=True)
    except _FAULTS as error:
        raise InvalidEnvelope(str(error)) from None
    except ValueError:
        raise InvalidEnvelope("the payload is said to be base64 and is not") from None
    if not _VERSION.fullmatch(envelope.metadata.version):
        raise InvalidEnvelope(
            f"version {envelope.metadata.version[:20]!r} is not understood; this is {VERSION}"
        )
    return envelope


def is_enveloped(data: bytes | None) -> bool:
    """Return whether a message claims to have an envelope: a JSON object with `metadata`."""
    try:
        fields = msgspec.json.decode(data or b"", type=dict[str, Raw])
    except _FAULTS:
        return False
    return "metadata" in fields


def wrap(content: bytes | None, origin: Origin) -> bytes:
    """Return a message in an envelope: JSON as it is, text as a string, the rest in base64."""
    payload, encoding = _payload(content)
    envelope = Envelope(
        metadata=Metadata(
            message_id=origin.message_id,
            timestamp=datetime.fromtimestamp(origin.now_ms / 1000, UTC),
            topic=origin.topic,
            source=origin.source,
            correlation_id=origin.correlation_id,
            message_type=origin.message_type,
            version=VERSION,
            payload_encoding=encoding,
        ),
        payload=payload,
    )
    return msgspec.json.encode(envelope)


def enveloped(content: bytes | None, origin: Origin) -> bytes:
    """Return a message with its own envelope, if that is right, or in a new one.

    Raise InvalidEnvelope for a message whose own is wrong.
    """
    if content is not None and is_enveloped(content):
        read(content)
        return content
    return wrap(content, origin)


def _payload(content: bytes | None) -> tuple[Raw, Literal["base64"] | msgspec.UnsetType]:
    if content is None:
        return Raw(b"null"), msgspec.UNSET
    try:
        msgspec.json.decode(content)
    except _FAULTS:
        pass
    else:
        return Raw(content), msgspec.UNSET
    try:
        return Raw(msgspec.json.encode(content.decode())), msgspec.UNSET
    except UnicodeDecodeError:
        return Raw(msgspec.json.encode(base64.b64encode(content).decode())), "base64"
