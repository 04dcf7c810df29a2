"""What an AMQP message says of itself: its properties, and the header that keeps it in a record.

The properties stay as they came, so that a consumer gets them bit by bit. The header `chordmq.amqp`
holds: stamp (8 bytes), virtual host, exchange and routing key (short strings), properties.
"""

import struct
from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from pamqp import commands

from chordmq.codecs.amqp.frames import short
from chordmq.codecs.amqp.tables import FAULTS, Table, read_table, write_table
from chordmq.dataclass import dataclass
from chordmq.errors import DecodeError

HEADER_NAME = "chordmq.amqp"
CONTENT_TYPE, ENCODING, HEADERS, DELIVERY_MODE = 0x8000, 0x4000, 0x2000, 0x1000
PRIORITY, CORRELATION_ID, REPLY_TO, EXPIRATION = 0x0800, 0x0400, 0x0200, 0x0100
MESSAGE_ID, TIMESTAMP, TYPE, USER_ID = 0x0080, 0x0040, 0x0020, 0x0010
APP_ID, CLUSTER_ID = 0x0008, 0x0004
CACHED = 4096

_U16 = struct.Struct(">H")
_U32 = struct.Struct(">I")
_U64 = struct.Struct(">Q")


def _string_end(data: bytes, at: int) -> int:
    return at + 1 + data[at]


def _octet_end(data: bytes, at: int) -> int:
    return at + 1


def _table_end(data: bytes, at: int) -> int:
    return at + 4 + int(_U32.unpack_from(data, at)[0])


def _time_end(data: bytes, at: int) -> int:
    return at + 8


_ENDS: dict[int, Callable[[bytes, int], int]] = {
    CONTENT_TYPE: _string_end,
    ENCODING: _string_end,
    HEADERS: _table_end,
    DELIVERY_MODE: _octet_end,
    PRIORITY: _octet_end,
    CORRELATION_ID: _string_end,
    REPLY_TO: _string_end,
    EXPIRATION: _string_end,
    MESSAGE_ID: _string_end,
    TIMESTAMP: _time_end,
    TYPE: _string_end,
    USER_ID: _string_end,
    APP_ID: _string_end,
    CLUSTER_ID: _string_end,
}
"""Where each property ends, in the order in which they stand."""


@dataclass(frozen=True, slots=True)
class Properties:
    """What the broker looks at; the rest is the clients' business."""

    raw: bytes
    headers: Table = field(default_factory=dict)
    priority: int | None = None
    expiration: str | None = None
    timestamp: int | None = None
    """Seconds since 1970."""
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
    sections: bytes = b""
    """What a record keeps of an AMQP 1.0 message; empty for all others."""
    route: bytes = field(init=False)
    """Exchange and routing key as basic.deliver has them."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "route", short(self.exchange) + short(self.key))


@lru_cache(maxsize=CACHED)
def read_properties(raw: bytes) -> Properties:
    """Return properties; raise DecodeError if they cannot be read."""
    try:
        parts = read_parts(raw)
        table = parts.get(HEADERS)
        timestamp = parts.get(TIMESTAMP)
        priority = parts.get(PRIORITY)
        return Properties(
            raw,
            {} if table is None else read_table(table[4:]),
            None if priority is None else priority[0],
            _text(parts.get(EXPIRATION)),
            None if timestamp is None else _U64.unpack(timestamp)[0],
            _text(parts.get(USER_ID)),
            _text(parts.get(REPLY_TO)),
        )
    except (struct.error, IndexError, UnicodeError) as fault:
        raise DecodeError(f"properties cannot be read: {fault}") from fault


def read_parts(raw: bytes) -> dict[int, bytes]:
    """Return the bytes of each property that is there, by its flag."""
    flags = _U16.unpack_from(raw)[0]
    if flags & 3:
        raise DecodeError(f"no properties have the flags {flags:#x}")
    parts: dict[int, bytes] = {}
    at = 2
    for flag, end in _ENDS.items():
        if flags & flag:
            stop = end(raw, at)
            if stop > len(raw):
                raise DecodeError("properties end too early")
            parts[flag] = raw[at:stop]
            at = stop
    if at != len(raw):
        raise DecodeError("bytes follow the last property")
    return parts


def _text(part: bytes | None) -> str | None:
    return None if part is None else part[1:].decode()


def joined(parts: dict[int, bytes]) -> Properties:
    """Return properties that consist of such bytes."""
    return read_properties(_written(parts))


def _written(parts: dict[int, bytes]) -> bytes:
    return _U16.pack(sum(parts)) + b"".join(parts[flag] for flag in _ENDS if flag in parts)


def raw_with_number(properties: Properties, name: str, number: int) -> bytes:
    """Return properties as bytes with one more header, whose value has always eight bytes."""
    parts = read_parts(properties.raw)
    body = parts.get(HEADERS, b"")[4:] + short(name) + b"l" + _U64.pack(number)
    return _written(parts | {HEADERS: len(body).to_bytes(4, "big") + body})


def with_headers(properties: Properties, headers: Table) -> Properties:
    """Return properties with another table of headers."""
    return joined(read_parts(properties.raw) | {HEADERS: write_table(headers)})


def without(properties: Properties, flag: int) -> Properties:
    """Return properties without one of them."""
    return joined({one: part for one, part in read_parts(properties.raw).items() if one != flag})


def with_reply_to(properties: Properties, name: str) -> Properties:
    """Return properties that ask for answers somewhere else."""
    return joined(read_parts(properties.raw) | {REPLY_TO: short(name)})


def new_properties(headers: Table, timestamp_s: int) -> Properties:
    """Return the properties of a message that is to be kept."""
    parts = {DELIVERY_MODE: b"\x02", TIMESTAMP: _U64.pack(max(timestamp_s, 0))}
    return joined(parts | {HEADERS: write_table(headers)})


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


def from_names(values: Mapping[str, Any]) -> Properties:
    """Return properties by their names in the specification; raise DecodeError for wrong ones."""
    named = {"message_type" if name == "type" else name: one for name, one in values.items()}
    try:
        if isinstance(named.get("timestamp"), int):
            named["timestamp"] = datetime.fromtimestamp(named["timestamp"], UTC)
        return read_properties(commands.Basic.Properties(**named).marshal())
    except (*FAULTS, AttributeError) as fault:
        raise DecodeError(f"these are no properties: {fault}") from fault


def to_names(properties: Properties) -> dict[str, Any]:
    """Return the properties that are there by their names in the specification."""
    parts = read_parts(properties.raw)
    found: dict[str, Any] = {
        name: parts[flag][1:].decode(errors="replace")
        for flag, name in _NAMES.items()
        if flag in parts
    }
    if HEADERS in parts:
        found["headers"] = properties.headers
    if DELIVERY_MODE in parts:
        found["delivery_mode"] = parts[DELIVERY_MODE][0]
    if properties.priority is not None:
        found["priority"] = properties.priority
    if properties.timestamp is not None:
        found["timestamp"] = properties.timestamp
    return found


_NAMES = {
    CONTENT_TYPE: "content_type",
    ENCODING: "content_encoding",
    CORRELATION_ID: "correlation_id",
    REPLY_TO: "reply_to",
    EXPIRATION: "expiration",
    MESSAGE_ID: "message_id",
    TYPE: "type",
    USER_ID: "user_id",
    APP_ID: "app_id",
    CLUSTER_ID: "cluster_id",
}


def _texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, list):
        return tuple(one for one in value if isinstance(one, str))
    return ()
