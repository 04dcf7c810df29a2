"""Keys, values and headers in JSON, and back: as text, as JSON or in base64, as was asked."""

import base64
import binascii
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Raw

from chordmq.errors import InvalidRecord
from chordmq.records.record import Headers

Encoding = Literal["utf-8", "base64", "json"]
Shown = Literal["auto", "utf-8", "base64", "json"]
"""How bytes are wanted: `auto` is utf-8 where that is possible and base64 where not."""

NULL = Raw(b"null")
"""Stands for no key or value, whatever the encoding."""

_FAULTS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Header(msgspec.Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """One header of a record; names may repeat."""

    name: str
    value: str | None
    encoding: Annotated[
        Literal["utf-8", "base64"], Meta(description="What the value is written in.")
    ] = "utf-8"


def to_bytes(raw: Raw, encoding: Encoding) -> bytes | None:
    """Return what a piece of JSON stands for, or raise InvalidRecord."""
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
    return text.encode() if encoding == "utf-8" else from_base64(text)


def to_headers(headers: list[Header] | dict[str, str]) -> Headers:
    """Return the headers that a client describes, or raise InvalidRecord."""
    if isinstance(headers, dict):
        return tuple((name, value.encode()) for name, value in headers.items())
    return tuple((header.name, _header_value(header)) for header in headers)


def from_base64(text: str) -> bytes:
    """Return what base64 stands for, or raise InvalidRecord."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidRecord("a text that is said to be base64 is not") from None


def from_bytes(data: bytes | None, shown: Shown) -> tuple[str | Raw | None, Encoding]:
    """Return how bytes stand in JSON, and in which encoding that is."""
    if data is None:
        return None, "utf-8"
    if shown == "json" and is_json(data):
        return Raw(data), "json"
    if shown != "base64":
        try:
            return data.decode(), "utf-8"
        except UnicodeDecodeError:
            pass
    return base64.b64encode(data).decode(), "base64"


def from_header(name: str, data: bytes | None, shown: Shown) -> Header:
    """Return how a header stands in JSON: as text where it can, unless base64 is wanted."""
    value, encoding = from_bytes(data, "base64" if shown == "base64" else "auto")
    assert not isinstance(value, Raw)
    assert encoding != "json"
    return Header(name, value, encoding)


def is_json(data: bytes) -> bool:
    """Return whether bytes are JSON."""
    try:
        msgspec.json.decode(data)
    except _FAULTS:
        return False
    return True


def _header_value(header: Header) -> bytes | None:
    if header.value is None:
        return None
    return from_base64(header.value) if header.encoding == "base64" else header.value.encode()
