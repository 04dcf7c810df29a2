"""A message of AMQP 1.0 as one of AMQP 0-9-1, and back: what stands where on the other side."""

import struct
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any
from urllib.parse import quote, unquote
from uuid import UUID

from chordmq.broker.queues.places import (
    KEY_HEADER,
    NULL_HEADER,
    TIME_HEADER,
    envelope_header,
    foreign_envelope,
    kept_sections,
    routing_key,
)
from chordmq.codecs.amqp import content
from chordmq.codecs.amqp.content import Envelope, Properties, joined, read_parts
from chordmq.codecs.amqp.frames import short
from chordmq.codecs.amqp.tables import write_table
from chordmq.codecs.amqp1.sections import (
    BodyKind,
    Head,
    Message,
    MessageHeader,
    MessageProperties,
    read_head,
    read_header,
    read_kept,
    write_head,
)
from chordmq.codecs.amqp1.values import Opaque, Symbol, Timestamp, Ulong
from chordmq.errors import DecodeError
from chordmq.records.record import Record

CACHED = 4096
SHORT_MAX = 255
QUEUES = "/queues/"
ENCODED_TYPE = "amqp-1.0"
"""The type of a message whose body is left in the encoding of AMQP 1.0."""
HIDDEN = (TIME_HEADER, "BCC")


@lru_cache(maxsize=CACHED)
def properties_of(header: bytes, head: bytes, kind: BodyKind, key: str | None) -> Properties:
    """Return what an AMQP 1.0 message says of itself, in terms of 0-9-1.

    `key` is that of its record, if the message is to choose one. Raise DecodeError if a section
    cannot be read.
    """
    treatment, (_, said, application) = read_header(header), read_head(head)
    table = {
        name: _to_table(value)
        for name, value in application.items()
        if isinstance(name, str) and len(name.encode()) <= SHORT_MAX
    }
    parts = {content.DELIVERY_MODE: b"\x02" if treatment.durable else b"\x01"}
    if treatment.priority is not None:
        parts[content.PRIORITY] = bytes((treatment.priority,))
    if said.creation_time is not None and said.creation_time >= 0:
        parts[content.TIMESTAMP] = (said.creation_time // 1000).to_bytes(8, "big")
        table.setdefault(TIME_HEADER, int(said.creation_time))
    if kind is BodyKind.NULL:
        table[NULL_HEADER] = True
    if key is not None:
        table.setdefault(KEY_HEADER, key)
    texts = {
        content.CONTENT_TYPE: said.content_type,
        content.ENCODING: said.content_encoding,
        content.CORRELATION_ID: said.correlation_id,
        content.REPLY_TO: _queue_name(said.reply_to),
        content.EXPIRATION: treatment.ttl,
        content.MESSAGE_ID: said.message_id,
        content.TYPE: ENCODED_TYPE if kind is BodyKind.SECTIONS else said.subject,
        content.USER_ID: said.user_id,
        content.APP_ID: said.group_id,
    }
    for flag, value in texts.items():
        text = _to_text(value)
        if text is not None and len(text.encode()) <= SHORT_MAX:
            parts[flag] = short(text)
    if table:
        parts[content.HEADERS] = write_table(table)
    return joined(parts)


def _queue_name(address: str | None) -> str | None:
    """Return the queue of an address to reply to."""
    if address is not None and address.startswith(QUEUES):
        return unquote(address.removeprefix(QUEUES))
    return address


def _to_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _to_table(value: Any) -> Any:
    """Return a value as one that a table of 0-9-1 can hold."""
    if isinstance(value, Timestamp):
        try:
            return datetime.fromtimestamp(value / 1000, UTC)
        except (OverflowError, ValueError, OSError):
            return int(value)
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, Opaque):
        return bytearray(value.data)
    if isinstance(value, bytes):
        return bytearray(value)
    if isinstance(value, int) and value >= 2**63:
        return str(int(value))
    if isinstance(value, Mapping):
        return {str(name)[:SHORT_MAX]: _to_table(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_to_table(one) for one in value]
    return str(value) if isinstance(value, Symbol | tuple) else value


def message_of(envelope: Envelope, body: bytes) -> Message:
    """Return any message as one of AMQP 1.0: as it was, if it came so."""
    if envelope.sections:
        return read_kept(envelope.sections, body)
    header, head, is_null = _head_of(envelope.exchange, envelope.key, envelope.properties.raw)
    if is_null:
        return Message(header, head, BodyKind.NULL, b"")
    return Message(header, head, BodyKind.DATA, body)


def message_of_record(vhost: str, topic: str, record: Record) -> Message:
    """Return a record of a topic as a message of AMQP 1.0, whoever wrote it."""
    body, sections, value = record.value or b"", kept_sections(record), envelope_header(record)
    try:
        if sections:
            return read_kept(sections, body)
        if value is not None:
            return message_of(content.read_envelope(value)[1], body)
    except (DecodeError, ValueError, struct.error):  # written by somebody who only claims to
        pass
    return message_of(foreign_envelope(vhost, topic, routing_key(record), record), body)


@lru_cache(maxsize=CACHED)
def _head_of(exchange: str, key: str, raw: bytes) -> tuple[bytes, bytes, bool]:
    properties = content.read_properties(raw)
    parts = read_parts(raw)
    texts = {flag: parts[flag][1:].decode(errors="replace") for flag in _TEXTS if flag in parts}
    ttl = properties.expiration
    header = MessageHeader(
        durable=parts.get(content.DELIVERY_MODE) == b"\x02",
        priority=properties.priority,
        ttl=min(int(ttl), 2**32 - 1) if ttl is not None and ttl.isdigit() else None,
    )
    table = properties.headers
    time_ms = table.get(TIME_HEADER)
    if not isinstance(time_ms, int):
        time_ms = None if properties.timestamp is None else properties.timestamp * 1000
    reply_to = texts.get(content.REPLY_TO)
    said = MessageProperties(
        message_id=texts.get(content.MESSAGE_ID),
        user_id=parts[content.USER_ID][1:] if content.USER_ID in parts else None,
        subject=texts.get(content.TYPE) or (key if exchange and key else None),
        reply_to=reply_to if not reply_to or "/" in reply_to else QUEUES + quote(reply_to, safe=""),
        correlation_id=texts.get(content.CORRELATION_ID),
        content_type=_symbol(texts.get(content.CONTENT_TYPE)),
        content_encoding=_symbol(texts.get(content.ENCODING)),
        creation_time=None if time_ms is None else Timestamp(min(time_ms, 2**63 - 1)),
        group_id=texts.get(content.APP_ID),
    )
    annotations, application = _split(table)
    is_null = application.pop(NULL_HEADER, False) is True
    return header.to_bytes(), write_head(Head(annotations, said, application)), is_null


_TEXTS = (
    content.CONTENT_TYPE,
    content.ENCODING,
    content.CORRELATION_ID,
    content.REPLY_TO,
    content.MESSAGE_ID,
    content.TYPE,
    content.APP_ID,
)


def _symbol(text: str | None) -> Symbol | None:
    return Symbol(text) if text is not None and text.isascii() else None


def _split(table: Mapping[str, Any]) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """Return headers as annotations (what has parts) and application properties (all else)."""
    annotations: dict[Any, Any] = {}
    application: dict[Any, Any] = {}
    for name, value in table.items():
        if name in HIDDEN:
            continue
        if isinstance(value, list | Mapping):
            mark = name if name.startswith("x-") else f"x-opt-{name}"
            annotations[Symbol(mark)] = _from_table(value)
        else:
            application[name] = _from_table(value)
    return annotations, application


def _from_table(value: Any) -> Any:
    if isinstance(value, datetime):
        return Timestamp(int(value.timestamp() * 1000))
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, Mapping):
        return {name: _from_table(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_from_table(one) for one in value]
    if isinstance(value, int) and not isinstance(value, bool) and value >= 2**63:
        return Ulong(value)
    return value
