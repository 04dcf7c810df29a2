"""Records as text: lines in, lines out, by a format of the user's or as JSON."""

import base64
import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from chordmq.cli.places import format_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from chordmq.records.record import Headers, Record

    Render = Callable[[str, int, Record], str]

FORMAT_HELP = "%t topic, %p partition, %o offset, %k key, %v value, %h headers, %T time, %% percent"

_TOKEN = re.compile(r"%(.)|\\([nt0\\])")
_ESCAPES = {"n": "\n", "t": "\t", "0": "\0", "\\": "\\"}


class Parsed(NamedTuple):
    """What one line of input says about a record."""

    key: bytes | None
    value: bytes | None
    headers: "Headers"


def readable(data: bytes | None) -> str:
    """Return text as it is, and other bytes with escapes."""
    return "" if data is None else data.decode("utf-8", "backslashreplace")


_FIELDS: "dict[str, Render]" = {
    "t": lambda topic, partition, record: topic,
    "p": lambda topic, partition, record: str(partition),
    "o": lambda topic, partition, record: str(record.offset),
    "k": lambda topic, partition, record: readable(record.key),
    "v": lambda topic, partition, record: readable(record.value),
    "h": lambda topic, partition, record: ",".join(
        f"{name}={readable(value)}" for name, value in record.headers
    ),
    "T": lambda topic, partition, record: format_time(record.timestamp),
}


def compile_format(template: str) -> "Render":
    """Return a function that writes a record by a format such as `%k: %v`."""
    parts: list[Render] = []

    def literal(text: str) -> None:
        parts.append(lambda topic, partition, record: text)

    end = 0
    for found in _TOKEN.finditer(template):
        literal(template[end : found.start()])
        end = found.end()
        letter, escape = found.groups()
        if escape or letter == "%":
            literal(_ESCAPES[escape] if escape else "%")
        elif letter in _FIELDS:
            parts.append(_FIELDS[letter])
        else:
            raise ValueError(f"%{letter} means nothing in a format; there are {FORMAT_HELP}")
    literal(template[end:])
    return lambda topic, partition, record: "".join(
        part(topic, partition, record) for part in parts
    )


def to_json(topic: str, partition: int, record: "Record") -> str:
    """Write a record as one line of JSON; `base64` names the parts that are not text."""
    encoded: list[str] = []

    def text(part: str, data: bytes | None) -> str | None:
        if data is None:
            return None
        try:
            return data.decode()
        except UnicodeDecodeError:
            encoded.append(part)
            return base64.b64encode(data).decode()

    row: dict[str, Any] = {
        "topic": topic,
        "partition": partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp,
        "key": text("key", record.key),
        "value": text("value", record.value),
        "headers": [
            {"name": name, "value": text(f"headers.{name}", value)}
            for name, value in record.headers
        ],
    }
    if encoded:
        row["base64"] = encoded
    return json.dumps(row, ensure_ascii=False)


def from_json(line: bytes) -> Parsed:
    """Read a record from a line of JSON, as `to_json` writes it; ValueError if it is none."""
    try:
        row = json.loads(line)
    except ValueError as error:
        raise ValueError(f"not a line of JSON: {error}: {readable(line[:80])}") from None
    if not isinstance(row, dict):
        raise ValueError(f'a line must be an object like {{"value": ...}}: {readable(line[:80])}')
    encoded = row.get("base64", [])

    def data(part: str, value: Any) -> bytes | None:
        if value is None:
            return None
        if part in encoded:
            return base64.b64decode(value, validate=True)
        return (value if isinstance(value, str) else json.dumps(value)).encode()

    try:
        headers = tuple(
            (str(header["name"]), data(f"headers.{header['name']}", header.get("value")))
            for header in row.get("headers", [])
        )
    except (KeyError, TypeError, AttributeError):
        raise ValueError(
            f'headers must be a list like [{{"name": ..., "value": ...}}]: {readable(line[:80])}'
        ) from None
    return Parsed(data("key", row.get("key")), data("value", row.get("value")), headers)


def from_line(line: bytes, separator: bytes | None, *, tombstones: bool) -> Parsed:
    """Read a record from a plain line: the value, after the key where a separator is given."""
    key, found, value = line.partition(separator) if separator else (b"", b"", line)
    if separator and not found:
        raise ValueError(f"no {separator.decode()!r} between key and value: {readable(line[:80])}")
    return Parsed(key if separator else None, None if tombstones and not value else value, ())
