"""Records as JSON, and back: bytes are shown as text, as JSON or in base64, whichever was asked.

A record that was read has the form of one to publish, so that it can be sent on as it is.
"""

import base64
import binascii
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Raw

from chordmq.errors import InvalidRecord
from chordmq.fronts.admin.call import read_json
from chordmq.records.record import Headers, NewRecord, Record

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

Encoding = Literal["utf-8", "base64", "json"]
Shown = Literal["auto", "utf-8", "base64", "json"]
"""How bytes are wanted: `auto` is utf-8 where that is possible and base64 where not."""
Index = Annotated[int, Meta(ge=0, le=INT_MAX)]
Offset = Annotated[int, Meta(ge=0, le=LONG_MAX)]
Timestamp = Annotated[int, Meta(ge=0, le=LONG_MAX)]

_NULL = Raw(b"null")


class Header(msgspec.Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """One header of a record; names may repeat."""

    name: str
    value: str | None
    encoding: Annotated[
        Literal["utf-8", "base64"], Meta(description="What the value is written in.")
    ] = "utf-8"


class RecordToPublish(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A record; `null` stands for none, whatever the encoding."""

    value: Annotated[Raw, Meta(description="A text, or with `encoding: json` any JSON.")] = (
        msgspec.field(default_factory=lambda: _NULL)
    )
    key: Annotated[Raw, Meta(description="As `value`, with `key_encoding`.")] = msgspec.field(
        default_factory=lambda: _NULL
    )
    headers: list[Header] | dict[str, str] = []
    timestamp: (
        Annotated[int, Meta(ge=0, le=LONG_MAX, description="Milliseconds since 1970; else now.")]
        | None
    ) = None
    partition: (
        Annotated[int, Meta(ge=0, le=INT_MAX, description="Else the key decides, or nothing.")]
        | None
    ) = None
    encoding: Encoding = "utf-8"
    key_encoding: Encoding = "utf-8"
    offset: (
        Annotated[int, Meta(description="Ignored, so that what was read can be sent on.")] | None
    ) = None


class StoredRecord(msgspec.Struct, frozen=True):
    """A record as it lies in the log."""

    partition: Index
    offset: Offset
    timestamp: Annotated[int, Meta(description="Milliseconds since 1970; -1 for none.")]
    key: Any
    key_encoding: Encoding
    value: Any
    encoding: Encoding
    headers: list[Header]


def to_record(wanted: RecordToPublish, now_ms: int) -> NewRecord:
    """Return the record that a client describes, or raise InvalidRecord."""
    return NewRecord(
        now_ms if wanted.timestamp is None else wanted.timestamp,
        _to_bytes(wanted.key, wanted.key_encoding),
        _to_bytes(wanted.value, wanted.encoding),
        _to_headers(wanted.headers),
    )


def from_record(partition: int, record: Record, shown: Shown) -> StoredRecord:
    """Return a record as JSON shows it."""
    key, key_encoding = _from_bytes(record.key, shown)
    value, encoding = _from_bytes(record.value, shown)
    return StoredRecord(
        partition=partition,
        offset=record.offset,
        timestamp=record.timestamp,
        key=key,
        key_encoding=key_encoding,
        value=value,
        encoding=encoding,
        headers=[_from_header(name, data, shown) for name, data in record.headers],
    )


def from_base64(text: str) -> bytes:
    """Return what base64 stands for, or raise InvalidRecord."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidRecord("a text that is said to be base64 is not") from None


def _to_bytes(raw: Raw, encoding: Encoding) -> bytes | None:
    data = bytes(raw)
    if data == b"null":
        return None
    if encoding == "json":
        return data
    if not data.startswith(b'"'):
        raise InvalidRecord(f"key or value is no text; with the encoding {encoding} it must be")
    text = read_json(data, str)
    return text.encode() if encoding == "utf-8" else from_base64(text)


def _to_headers(headers: list[Header] | dict[str, str]) -> Headers:
    if isinstance(headers, dict):
        return tuple((name, value.encode()) for name, value in headers.items())
    return tuple((header.name, _header_value(header)) for header in headers)


def _header_value(header: Header) -> bytes | None:
    if header.value is None:
        return None
    return from_base64(header.value) if header.encoding == "base64" else header.value.encode()


def _from_bytes(data: bytes | None, shown: Shown) -> tuple[Any, Encoding]:
    if shown == "json" and data is not None and _is_json(data):
        return Raw(data), "json"
    if data is None:
        return None, "utf-8"
    if shown != "base64":
        try:
            return data.decode(), "utf-8"
        except UnicodeDecodeError:
            pass
    return base64.b64encode(data).decode(), "base64"


def _is_json(data: bytes) -> bool:
    try:
        msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def _from_header(name: str, data: bytes | None, shown: Shown) -> Header:
    if shown == "json":
        shown = "auto"
    value, encoding = _from_bytes(data, shown)
    assert encoding != "json"
    return Header(name, value, encoding)
