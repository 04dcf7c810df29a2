"""Records as JSON, and back: bytes are shown as text, as JSON or in base64, whichever was asked.

A record that was read has the form of one to publish, so that it can be sent on as it is.
"""

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw

from chordmq.codecs.texts import (
    NULL,
    Encoding,
    Header,
    Shown,
    from_bytes,
    from_header,
    to_bytes,
    to_headers,
)
from chordmq.records.record import NewRecord, Record

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

Index = Annotated[int, Meta(ge=0, le=INT_MAX)]
Offset = Annotated[int, Meta(ge=0, le=LONG_MAX)]
Timestamp = Annotated[int, Meta(ge=0, le=LONG_MAX)]


class RecordToPublish(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A record; `null` stands for none, whatever the encoding."""

    value: Annotated[Raw, Meta(description="A text, or with `encoding: json` any JSON.")] = (
        msgspec.field(default_factory=lambda: NULL)
    )
    key: Annotated[Raw, Meta(description="As `value`, with `key_encoding`.")] = msgspec.field(
        default_factory=lambda: NULL
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
        to_bytes(wanted.key, wanted.key_encoding),
        to_bytes(wanted.value, wanted.encoding),
        to_headers(wanted.headers),
    )


def from_record(partition: int, record: Record, shown: Shown) -> StoredRecord:
    """Return a record as JSON shows it."""
    key, key_encoding = from_bytes(record.key, shown)
    value, encoding = from_bytes(record.value, shown)
    return StoredRecord(
        partition=partition,
        offset=record.offset,
        timestamp=record.timestamp,
        key=key,
        key_encoding=key_encoding,
        value=value,
        encoding=encoding,
        headers=[from_header(name, data, shown) for name, data in record.headers],
    )
