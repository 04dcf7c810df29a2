"""The two ways to write the gateway's messages: JSON for people, MessagePack for bytes."""

import struct
from collections.abc import Sequence
from typing import ClassVar, Protocol

import msgspec

from chordmq.codecs.texts import Shown, from_bytes, from_header, to_bytes, to_headers
from chordmq.codecs.websocket.frames import BINARY, TEXT
from chordmq.codecs.websocket.messages import (
    BytesRequest,
    Id,
    Publish,
    PublishBytes,
    PublishText,
    RecordBytes,
    RecordText,
    Request,
    TextRequest,
    Told,
)
from chordmq.errors import InvalidRequest
from chordmq.records.record import NewRecord, Record

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
            to_bytes(wanted.key, wanted.key_encoding),
            to_bytes(wanted.value, wanted.encoding),
            to_headers(wanted.headers),
        )

    def from_record(
        self, partition: int, record: Record, name: str, shown: Shown, deliveries: int = 0
    ) -> bytes:
        """Return a record as it stands among others in a message."""
        key, key_encoding = from_bytes(record.key, shown)
        value, encoding = from_bytes(record.value, shown)
        found = RecordText(
            partition=partition,
            offset=record.offset,
            timestamp=record.timestamp,
            key=key,
            value=value,
            headers=[from_header(*header, shown) for header in record.headers],
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
