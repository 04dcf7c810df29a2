"""The two ways to write the gateway's messages: JSON for people, MessagePack for bytes."""

import base64
import binascii
import struct
from collections.abc import Sequence
from typing import ClassVar, Protocol

import msgspec
from msgspec import Raw

from chordmq.codecs.websocket.frames import BINARY, TEXT
from chordmq.codecs.websocket.messages import (
    BytesRequest,
    Encoding,
    Header,
    Id,
    Publish,
    PublishBytes,
    PublishText,
    RecordBytes,
    RecordText,
    Request,
    Shown,
    TextRequest,
    Told,
)
from chordmq.errors import InvalidRecord, InvalidRequest
from chordmq.records.record import Headers, NewRecord, Record

_ARRAY = struct.Struct(">BI")
_FAULTS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Subprotocol(Protocol):
    """How messages are written and read."""

    name: ClassVar[str]
    opcode: ClassVar[int]

    def read(self, data: bytes) -> Request:
        """Return what a client asks, or raise InvalidRequest."""
        ...

    def write(self, told: Told) -> bytes:
        """Return a message to a client."""
        ...

    def to_record(self, wanted: Publish, now_ms: int) -> NewRecord:
        """Return the record that a client describes, or raise InvalidRecord."""
        ...

    def from_record(
        self, partition: int, record: Record, name: str, shown: Shown, deliveries: int = 0
    ) -> bytes:
        """Return a record as it stands among others in a message."""
        ...

    def records_head(self, subscription: Id) -> bytes:
        """Return the part of a message with records that differs between subscriptions."""
        ...

    def records_tail(self, topic: str, position: str, records: Sequence[bytes]) -> bytes:
        """Return the part of it that those have in common who are at the same place."""
        ...


class Json:
    """Text messages; bytes are shown as text, as JSON or in base64, whichever was asked."""

    name: ClassVar[str] = "chordmq.json"
    opcode: ClassVar[int] = TEXT

    def __init__(self) -> None:
        self._decoder = msgspec.json.Decoder(TextRequest)
        self._encoder = msgspec.json.Encoder()

    def read(self, data: bytes) -> Request:
        """Return what a client asks, or raise InvalidRequest."""
        try:
            found: Request = self._decoder.decode(data)
        except _FAULTS as error:
            raise InvalidRequest(str(error)) from None
        return found

    def write(self, told: Told) -> bytes:
        """Return a message to a client."""
        return self._encoder.encode(told)

    def to_record(self, wanted: Publish, now_ms: int) -> NewRecord:
        """Return the record that a client describes, or raise InvalidRecord."""
        assert isinstance(wanted, PublishText)
        return NewRecord(
            now_ms if wanted.timestamp is None else wanted.timestamp,
            _to_bytes(wanted.key, wanted.key_encoding),
            _to_bytes(wanted.value, wanted.encoding),
            _to_headers(wanted.headers),
        )

    def from_record(
        self, partition: int, record: Record, name: str, shown: Shown, deliveries: int = 0
    ) -> bytes:
        """Return a record as it stands among others in a message."""
        key, key_encoding = _from_bytes(record.key, shown)
        value, encoding = _from_bytes(record.value, shown)
        found = RecordText(
            partition=partition,
            offset=record.offset,
            timestamp=record.timestamp,
            key=key,
            value=value,
            headers=[_from_header(*header, shown) for header in record.headers],
            encoding=encoding,
            key_encoding=key_encoding,
            name=name,
            deliveries=deliveries,
        )
        return self._encoder.encode(found)

    def records_head(self, subscription: Id) -> bytes:
        """Return the part of a message with records that differs between subscriptions."""
        return b'{"type":"records","id":' + self._encoder.encode(subscription)

    def records_tail(self, topic: str, position: str, records: Sequence[bytes]) -> bytes:
        """Return the part of it that those have in common who are at the same place."""
        place = f',"topic":"{topic}","position":"{position}","records":['
        return place.encode() + b",".join(records) + b"]}"


class MessagePack:
    """Binary messages; bytes are what they are."""

    name: ClassVar[str] = "chordmq.msgpack"
    opcode: ClassVar[int] = BINARY

    def __init__(self) -> None:
        self._decoder = msgspec.msgpack.Decoder(BytesRequest)
        self._encoder = msgspec.msgpack.Encoder()

    def read(self, data: bytes) -> Request:
        """Return what a client asks, or raise InvalidRequest."""
        try:
            found: Request = self._decoder.decode(data)
        except _FAULTS as error:
            raise InvalidRequest(str(error)) from None
        return found

    def write(self, told: Told) -> bytes:
        """Return a message to a client."""
        return self._encoder.encode(told)

    def to_record(self, wanted: Publish, now_ms: int) -> NewRecord:
        """Return the record that a client describes."""
        assert isinstance(wanted, PublishBytes)
        return NewRecord(
            now_ms if wanted.timestamp is None else wanted.timestamp,
            wanted.key,
            wanted.value,
            tuple(wanted.headers),
        )

    def from_record(
        self, partition: int, record: Record, name: str, shown: Shown, deliveries: int = 0
    ) -> bytes:
        """Return a record as it stands among others in a message."""
        found = RecordBytes(
            partition=partition,
            offset=record.offset,
            timestamp=record.timestamp,
            key=record.key,
            value=record.value,
            headers=list(record.headers),
            name=name,
            deliveries=deliveries,
        )
        return self._encoder.encode(found)

    def records_head(self, subscription: Id) -> bytes:
        """Return the part of a message with records that differs between subscriptions."""
        encode = self._encoder.encode
        five_fields = b"\x85"
        return (
            five_fields + encode("type") + encode("records") + encode("id") + encode(subscription)
        )

    def records_tail(self, topic: str, position: str, records: Sequence[bytes]) -> bytes:
        """Return the part of it that those have in common who are at the same place."""
        encode = self._encoder.encode
        place = encode("topic") + encode(topic) + encode("position") + encode(position)
        array = _ARRAY.pack(0xDD, len(records))
        return b"".join((place, encode("records"), array, *records))


SUBPROTOCOLS: dict[str, type[Json] | type[MessagePack]] = {
    Json.name: Json,
    MessagePack.name: MessagePack,
}


def _to_bytes(raw: Raw, encoding: Encoding) -> bytes | None:
    data = bytes(raw)
    if data == b"null":
        return None
    if encoding == "json":
        return data
    if not data.startswith(b'"'):
        raise InvalidRecord(f"key or value is no text; with the encoding {encoding} it must be")
    try:
        text = msgspec.json.decode(data, type=str)
    except _FAULTS as error:
        raise InvalidRecord(str(error)) from None
    return text.encode() if encoding == "utf-8" else _from_base64(text)


def _to_headers(headers: list[Header] | dict[str, str]) -> Headers:
    if isinstance(headers, dict):
        return tuple((name, value.encode()) for name, value in headers.items())
    return tuple((header.name, _header_value(header)) for header in headers)


def _header_value(header: Header) -> bytes | None:
    if header.value is None:
        return None
    return _from_base64(header.value) if header.encoding == "base64" else header.value.encode()


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidRecord("a text that is said to be base64 is not") from None


def _from_bytes(data: bytes | None, shown: Shown) -> tuple[str | Raw | None, Encoding]:
    if data is None:
        return None, "utf-8"
    if shown == "json" and _is_json(data):
        return Raw(data), "json"
    if shown != "base64":
        try:
            return data.decode(), "utf-8"
        except UnicodeDecodeError:
            pass
    return base64.b64encode(data).decode(), "base64"


def _from_header(name: str, data: bytes | None, shown: Shown) -> Header:
    value, encoding = _from_bytes(data, "base64" if shown == "base64" else "auto")
    assert not isinstance(value, Raw)
    assert encoding != "json"
    return Header(name, value, encoding)


def _is_json(data: bytes) -> bool:
    try:
        msgspec.json.decode(data)
    except _FAULTS:
        return False
    return True
