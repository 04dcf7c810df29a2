"""What an AMQP message says of itself: its properties, and the header that keeps it in a record.

The properties stay as they came, so that a consumer gets them bit by bit. The header `chordmq.amqp`
holds: stamp (8 bytes), virtual host, exchange and routing key (short strings), properties.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any

from pamqp import commands, decode

from chordmq.codecs.amqp.frames import FAULTS, short
from chordmq.errors import DecodeError

Table = Mapping[str, Any]

HEADER_NAME = "chordmq.amqp"
NO_PROPERTIES = b"\x00\x00"
CONTENT_TYPE, ENCODING, HEADERS, DELIVERY_MODE = 0x8000, 0x4000, 0x2000, 0x1000
PRIORITY, CORRELATION_ID, REPLY_TO, EXPIRATION = 0x0800, 0x0400, 0x0200, 0x0100
MESSAGE_ID, TIMESTAMP, TYPE, USER_ID = 0x0080, 0x0040, 0x0020, 0x0010
CACHED = 4096
PERSISTENT = 2

_U16 = struct.Struct(">H")
_U64 = struct.Struct(">Q")


@dataclass(frozen=True, slots=True)
class Properties:
    """What the broker looks at; the rest is the clients' business."""

    raw: bytes
    headers: Table = field(default_factory=dict)
    priority: int | None = None
    expiration: str | None = None
    timestamp: datetime | None = None
    user_id: str | None = None
    reply_to: str | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the further routing keys that the sender has chosen (CC and BCC)."""
        return (*_texts(self.headers.get("CC")), *_texts(self.headers.get("BCC")))


@dataclass(frozen=True, slots=True, eq=False)
class Envelope:
    """Where a message was published, and with which properties."""

    vhost: str
    exchange: str
    key: str
    properties: Properties
    route: bytes = field(init=False)
    """Exchange and routing key as basic.deliver has them."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "route", short(self.exchange) + short(self.key))


@lru_cache(maxsize=CACHED)
def read_properties(raw: bytes) -> Properties:
    """Return properties; raise DecodeError if they cannot be read."""
    try:
        flags = _U16.unpack_from(raw)[0]
        if flags & 1:
            raise DecodeError("properties with more than fifteen flags")
        found = commands.Basic.Properties()
        found.unmarshal(flags, raw[2:])
    except FAULTS as fault:
        raise DecodeError(f"properties cannot be read: {fault}") from fault
    return Properties(
        raw,
        found.headers or {},
        found.priority,
        found.expiration,
        found.timestamp,
        found.user_id,
        found.reply_to,
    )


def changed(properties: Properties, **changes: Any) -> Properties:
    """Return properties with other values; None takes one away."""
    found = commands.Basic.Properties()
    found.unmarshal(_U16.unpack_from(properties.raw)[0], properties.raw[2:])
    for name, value in changes.items():
        setattr(found, name, value)
    return read_properties(found.marshal())


def new_properties(**values: Any) -> Properties:
    """Return properties made of values."""
    return read_properties(commands.Basic.Properties(**values).marshal())


def write_envelope(stamp: int, envelope: Envelope) -> bytes:
    """Return the header's value."""
    return _U64.pack(stamp) + short(envelope.vhost) + envelope.route + envelope.properties.raw


def read_envelope(value: bytes) -> tuple[int, Envelope]:
    """Return the stamp and the envelope; raise DecodeError if there is none."""
    if len(value) < 13:
        raise DecodeError("an envelope is too short")
    return _U64.unpack_from(value)[0], _envelope(value[8:])


@lru_cache(maxsize=CACHED)
def _envelope(data: bytes) -> Envelope:
    try:
        vhost, at = _short(data, 0)
        exchange, at = _short(data, at)
        key, at = _short(data, at)
    except (IndexError, UnicodeError) as fault:
        raise DecodeError(f"an envelope cannot be read: {fault}") from fault
    return Envelope(vhost, exchange, key, read_properties(data[at:]))


def _short(data: bytes, at: int) -> tuple[str, int]:
    stop = at + 1 + data[at]
    return data[at + 1 : stop].decode(), stop


def _texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, list):
        return tuple(one for one in value if isinstance(one, str))
    return ()


def read_table(data: bytes) -> Table:
    """Return a table without its length, as AMQPLAIN has it; raise DecodeError if it is none."""
    try:
        return decode.field_table(len(data).to_bytes(4, "big") + data)[1]
    except FAULTS as fault:
        raise DecodeError(f"a table cannot be read: {fault}") from fault
