"""Messages of devices and clients: as they come, and without what they are wrapped in (pure)."""

from typing import NamedTuple, TypeVar

import msgspec

from chordmq.errors import InvalidRequest
from chordmq.iot import envelope
from chordmq.records.record import Headers

CORRELATION = "correlation-data"
STATUS_LENGTH_MAX = 200

T = TypeVar("T")


class Incoming(NamedTuple):
    """A message of a device or of a client, and where it lies in the log."""

    name: str
    value: bytes | None
    headers: Headers = ()
    topic: str = ""
    partition: int = 0
    offset: int = 0


class Message(NamedTuple):
    """A message without what it is wrapped in."""

    id: str
    """Its own, or its place in the log."""
    source: str
    correlation_id: str
    content: bytes
    correlation_data: bytes | None
    timestamp_ms: int = 0
    """When it was made, if its envelope says so."""


def opened(incoming: Incoming) -> Message:
    """Return a message without its envelope; raise InvalidEnvelope if that is wrong."""
    data = next((value for name, value in incoming.headers if name == CORRELATION), None)
    value = incoming.value or b""
    if not envelope.is_enveloped(value):
        place = f"{incoming.topic}-{incoming.partition}-{incoming.offset}"
        return Message(place, "", "", value, data)
    found = envelope.read(value)
    metadata = found.metadata
    return Message(
        metadata.message_id,
        metadata.source,
        metadata.correlation_id or "",
        found.content,
        data,
        round(metadata.timestamp.timestamp() * 1000),
    )


def read(message: Message, kind: type[T]) -> T:
    """Return what a message says, or raise InvalidRequest."""
    try:
        said = msgspec.json.decode(message.content or b"{}", type=kind)
        msgspec.msgpack.encode(said)  # what cannot be stored is refused before it counts
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OverflowError) as error:
        raise InvalidRequest(str(error)) from None
    return said


def status_of(content: bytes) -> str:
    """Return what a status says: a text, or the `status` of an object."""
    try:
        said = msgspec.json.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        said = content.decode(errors="replace")
    if isinstance(said, dict):
        said = said.get("status", said)
    return (said if isinstance(said, str) else msgspec.json.encode(said).decode())[
        :STATUS_LENGTH_MAX
    ]
