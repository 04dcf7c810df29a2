"""The sections of an AMQP 1.0 message, and how a record keeps them.

The body is the record's value wherever it is plain bytes or text. Everything else stays bit by bit
in the record's header `chordmq.amqp1`: kind of the body (1 byte), sizes of the header section (2)
and of the annotations and properties (4), these sections, and the footer.
"""

import struct
from dataclasses import replace
from enum import IntEnum
from functools import lru_cache
from typing import Annotated, Any, NamedTuple

from chordmq.codecs.amqp1 import values
from chordmq.codecs.amqp1.composites import (
    ANY,
    BINARY,
    BOOLEAN,
    SYMBOL,
    TEXT,
    UBYTE,
    UINT,
    Composite,
    Kind,
    from_items,
)
from chordmq.codecs.amqp1.values import DESCRIBED, Described, Timestamp, read_value, skip_value
from chordmq.dataclass import dataclass
from chordmq.errors import DecodeError

KEPT_HEADER = "chordmq.amqp1"
CACHED = 4096
HEADER, DELIVERY_ANNOTATIONS, ANNOTATIONS, PROPERTIES, APPLICATION = range(0x70, 0x75)
DATA, SEQUENCE, VALUE, FOOTER = range(0x75, 0x79)
NAMES = {
    "amqp:header:list": HEADER,
    "amqp:delivery-annotations:map": DELIVERY_ANNOTATIONS,
    "amqp:message-annotations:map": ANNOTATIONS,
    "amqp:properties:list": PROPERTIES,
    "amqp:application-properties:map": APPLICATION,
    "amqp:data:binary": DATA,
    "amqp:amqp-sequence:list": SEQUENCE,
    "amqp:amqp-value:*": VALUE,
    "amqp:footer:map": FOOTER,
}

NARROW_MAP = 0xC1

_KEPT = struct.Struct(">BHI")


class BodyKind(IntEnum):
    """What the value of a record is in the message."""

    DATA = 0
    """One data section."""
    TEXT = 1
    """A value that is a text."""
    BINARY = 2
    """A value that is bytes."""
    SECTIONS = 3
    """Any other sections, as they came."""
    NULL = 4
    """A value that is null; the record has none."""


class Message(NamedTuple):
    """A message in parts."""

    header: bytes
    """The header section, which changes on its way."""
    head: bytes
    """Message annotations, properties and application properties."""
    kind: BodyKind
    body: bytes
    footer: bytes = b""


def _timestamp(value: Any) -> Any:
    if not isinstance(value, Timestamp):
        raise DecodeError(f"{value!r:.60} is no time")
    return value


TIMESTAMP = Kind(_timestamp, values.write_value)


@dataclass(slots=True, kw_only=True)
class MessageHeader(Composite):
    """How a message is to be treated on its way."""

    code, name = HEADER, "amqp:header:list"
    durable: Annotated[bool, BOOLEAN] = False
    priority: Annotated[int | None, UBYTE] = None
    ttl: Annotated[int | None, UINT] = None
    first_acquirer: Annotated[bool, BOOLEAN] = False
    delivery_count: Annotated[int, UINT] = 0


@dataclass(slots=True, kw_only=True)
class MessageProperties(Composite):
    """What a message says of itself."""

    code, name = PROPERTIES, "amqp:properties:list"
    message_id: Annotated[Any, ANY] = None
    user_id: Annotated[bytes | None, BINARY] = None
    to: Annotated[str | None, TEXT] = None
    subject: Annotated[str | None, TEXT] = None
    reply_to: Annotated[str | None, TEXT] = None
    correlation_id: Annotated[Any, ANY] = None
    content_type: Annotated[str | None, SYMBOL] = None
    content_encoding: Annotated[str | None, SYMBOL] = None
    absolute_expiry_time: Annotated[int | None, TIMESTAMP] = None
    creation_time: Annotated[int | None, TIMESTAMP] = None
    group_id: Annotated[str | None, TEXT] = None
    group_sequence: Annotated[int | None, UINT] = None
    reply_to_group_id: Annotated[str | None, TEXT] = None


class Head(NamedTuple):
    """The sections between header and body, read; nobody may change them."""

    annotations: dict[Any, Any]
    properties: MessageProperties
    application: dict[Any, Any]


def split_message(data: bytes) -> Message:
    """Return a message's parts; raise DecodeError if it has none."""
    header = head = footer = b""
    body: list[tuple[int, int, int, int]] = []
    at, last = 0, HEADER
    while at < len(data):
        code, value_at = _descriptor(data, at)
        end = skip_value(data, value_at)
        if code < last or (code == last and code not in (HEADER, DATA, SEQUENCE)):
            raise DecodeError("the sections of a message stand in the wrong order")
        last = code
        if code == HEADER:
            header = data[at:end]
        elif code in (ANNOTATIONS, PROPERTIES, APPLICATION):
            head += data[at:end]
        elif code == FOOTER:
            footer = data[at:end]
        elif code != DELIVERY_ANNOTATIONS:
            body.append((code, at, value_at, end))
        at = end
    kind, content = _body(data, body)
    return Message(header, head, kind, content, footer)


def _descriptor(data: bytes, at: int) -> tuple[int, int]:
    """Return which section begins at a place, and where its value does."""
    if data[at] != DESCRIBED:
        raise DecodeError("a message has sections only")
    descriptor, at = read_value(data, at + 1)
    code = NAMES.get(descriptor) if isinstance(descriptor, str) else descriptor
    if not isinstance(code, int) or not HEADER <= code <= FOOTER:
        raise DecodeError(f"no section is called {descriptor!r:.60}")
    return code, at


def _body(data: bytes, body: list[tuple[int, int, int, int]]) -> tuple[BodyKind, bytes]:
    if not body:  # some clients leave a null out
        return BodyKind.NULL, b""
    if len({code for code, *_ in body}) > 1:
        raise DecodeError("a message has one kind of body only")
    code, start, value_at, end = body[0]
    if code == DATA and data[value_at] not in (0xA0, 0xB0):
        raise DecodeError("a data section that is not binary")
    if len(body) == 1 and code == VALUE and data[value_at] == values.NULL[0]:
        return BodyKind.NULL, b""
    if len(body) == 1 and code in (DATA, VALUE):
        narrow = {0xA0: BodyKind.BINARY, 0xA1: BodyKind.TEXT}.get(data[value_at])
        wide = {0xB0: BodyKind.BINARY, 0xB1: BodyKind.TEXT}.get(data[value_at])
        if narrow is not None:
            return BodyKind.DATA if code == DATA else narrow, data[value_at + 2 : end]
        if wide is not None:
            return BodyKind.DATA if code == DATA else wide, data[value_at + 5 : end]
    return BodyKind.SECTIONS, data[start : body[-1][3]]


def write_body(kind: BodyKind, body: bytes) -> bytes:
    """Return the sections of a body."""
    if kind is BodyKind.SECTIONS:
        return body
    if kind is BodyKind.NULL:
        return b"\x00\x53\x77" + values.NULL
    if kind is BodyKind.DATA:
        return b"\x00\x53\x75" + values.binary(body)
    if kind is BodyKind.BINARY:
        return b"\x00\x53\x77" + values.binary(body)
    narrow = len(body) < 256
    size = bytes((0xA1, len(body))) if narrow else b"\xb1" + len(body).to_bytes(4, "big")
    return b"\x00\x53\x77" + size + body


@lru_cache(maxsize=CACHED)
def read_head(head: bytes) -> Head:
    """Return what stands between header and body; raise DecodeError if it cannot be read."""
    annotations: dict[Any, Any] = {}
    application: dict[Any, Any] = {}
    properties = MessageProperties()
    at = 0
    while at < len(head):
        code, at = _descriptor(head, at)
        value, at = read_value(head, at)
        if code == PROPERTIES:
            properties = from_items(MessageProperties, value)
        elif not isinstance(value, dict):
            raise DecodeError("annotations and application properties are maps")
        elif code == ANNOTATIONS:
            annotations = value
        else:
            application = value
    return Head(annotations, properties, application)


@lru_cache(maxsize=CACHED)
def read_header(header: bytes) -> MessageHeader:
    """Return the header section; nobody may change it."""
    if not header:
        return MessageHeader()
    value, _ = read_value(header, 0)
    assert isinstance(value, Described)
    read: MessageHeader = from_items(MessageHeader, value.value)
    return read


def write_head(head: Head) -> bytes:
    """Return the sections between header and body."""
    out = b""
    if head.annotations:
        out += values.described(ANNOTATIONS, values.mapping(head.annotations))
    properties = head.properties.to_bytes()
    if not properties.endswith(values.EMPTY_LIST):
        out += properties
    if head.application:
        out += values.described(APPLICATION, values.mapping(head.application))
    return out


def write_kept(message: Message) -> bytes:
    """Return what a record keeps of a message besides its body."""
    sizes = _KEPT.pack(message.kind, len(message.header), len(message.head))
    return b"".join((sizes, message.header, message.head, message.footer))


def read_kept(value: bytes, body: bytes) -> Message:
    """Return a message from what a record keeps of it; raise DecodeError if that is nothing."""
    try:
        kind, header_size, head_size = _KEPT.unpack_from(value)
        middle = _KEPT.size + header_size
        end = middle + head_size
        if end > len(value):
            raise DecodeError("what is kept of a message is too short")
        header, head = value[_KEPT.size : middle], value[middle:end]
        return Message(header, head, BodyKind(kind), body, value[end:])
    except (struct.error, ValueError) as fault:
        raise DecodeError(f"what is kept of a message cannot be read: {fault}") from fault


@lru_cache(maxsize=CACHED)
def _header_on_its_way(header: bytes, failures: int, is_first: bool) -> bytes:
    try:
        read = read_header(header)
    except DecodeError:
        read = MessageHeader()
    changed = replace(read, first_acquirer=is_first, delivery_count=min(failures, 2**32 - 1))
    return changed.to_bytes()


def write_message(
    message: Message, annotations: bytes, failures: int = 0, *, is_first: bool = True
) -> bytes:
    """Return a message as it is delivered: how often it has failed, and with annotations of ours.

    `annotations` are pairs of values, as bytes; each has one byte for its name's size.
    """
    head = message.head
    if annotations:
        head = _annotated(head, annotations)
    return b"".join(
        (
            _header_on_its_way(message.header, failures, is_first),
            head,
            write_body(message.kind, message.body),
            message.footer,
        )
    )


def _annotated(head: bytes, annotations: bytes) -> bytes:
    """Return the head with annotations of ours behind its own, which stay bit by bit."""
    ours = _pairs(annotations, 0, len(annotations))
    rest = head
    kept: dict[Any, bytes] = {}
    if head:
        code, at = _descriptor(head, 0)
        if code == ANNOTATIONS:
            end = skip_value(head, at)
            narrow = head[at] == NARROW_MAP
            kept = _pairs(head, at + 3 if narrow else at + 9, end)
            rest = head[end:]
    pairs = kept | ours
    body = values.compound(NARROW_MAP, 2 * len(pairs), b"".join(pairs.values()))
    return values.described(ANNOTATIONS, body) + rest


def _pairs(data: bytes, at: int, end: int) -> dict[Any, bytes]:
    """Return the bytes of each pair of a map, by its name."""
    found: dict[Any, bytes] = {}
    while at < end:
        name, value_at = read_value(data, at)
        stop = skip_value(data, value_at)
        found[name] = data[at:stop]
        at = stop
    return found
