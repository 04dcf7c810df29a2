"""Where messages lie: exchanges and queues as topics of the log, records as messages and back."""

import hashlib
import re
from functools import lru_cache
from typing import Any

from chordmq.broker.names import name_of
from chordmq.codecs.amqp.content import (
    DELIVERY_MODE,
    HEADER_NAME,
    HEADERS,
    TIMESTAMP,
    Envelope,
    Properties,
    new_properties,
)
from chordmq.codecs.amqp1.sections import KEPT_HEADER
from chordmq.records.record import Headers, Record

ROOT = "/"
TOPIC_LENGTH_MAX = 249
DIGEST_LENGTH = 16
SHORT_MAX = 255
NAMES_CACHED = 10_000
TRANSIENT = "__queues_transient"
"""The topic of what does not outlive the node: messages for queues that are not durable."""
KEY_HEADER = "chordmq.key"
"""The key of a record, where it cannot be a routing key."""
TIME_HEADER = "timestamp_in_ms"
NULL_HEADER = "chordmq.null"
"""Says that a record has no value at all, which an empty body cannot."""
EXCEPT_HEADER = "chordmq.amqp.except"
"""Queues that were full when a message was published, and do not get it."""
OWN_PREFIX = "chordmq."

_ILLEGAL = re.compile(r"[^A-Za-z0-9._-]")


@lru_cache(maxsize=NAMES_CACHED)
def topic_name(vhost: str, name: str) -> str:
    """Return the log topic of an exchange or queue; a virtual host is a prefix.

    A name that a topic cannot have keeps its legal characters, and a digest tells it from others.
    """
    full = name if vhost == ROOT else f"{vhost}.{name}"
    legal = _ILLEGAL.sub("_", full)
    if legal == full and len(full) <= TOPIC_LENGTH_MAX and not _is_reserved(full):
        return full
    digest = hashlib.sha256(full.encode()).hexdigest()[:DIGEST_LENGTH]
    return f"{legal.lstrip('_.')[: TOPIC_LENGTH_MAX - DIGEST_LENGTH - 1]}_{digest}"


def _is_reserved(name: str) -> bool:
    return name in ("", ".", "..") or name.startswith("__")


def name_of_key(key: str) -> str:
    """Return the name with levels that a routing key of `amq.topic` stands for."""
    return key.replace("/", "\0").replace(".", "/").replace("\0", ".")


def key_of_name(name: str) -> str:
    """Return the routing key of a name with levels."""
    return name_of_key(name)


def filter_of_pattern(pattern: str) -> str:
    """Return a filter over names that lets through all that a pattern of routing keys does."""
    words = pattern.split(".")
    levels: list[str] = []
    for word in words:
        if word == "#":
            return "/".join([*levels, "#"])
        levels.append("+" if word == "*" else word.replace("/", "."))
    return "/".join(levels)


def visible_headers(properties: Properties) -> Headers:
    """Return a message's headers as those of a record, so that everybody can read them."""
    if not properties.headers:
        return ()
    return tuple(
        (name, _as_bytes(one))
        for name, value in properties.headers.items()
        if name not in (KEY_HEADER, TIME_HEADER, NULL_HEADER, "BCC")
        for one in (value if isinstance(value, list) else (value,))
    )


def is_null(properties: Properties) -> bool:
    """Return whether an empty body stands for no value at all."""
    return bool(properties.headers) and properties.headers.get(NULL_HEADER) is True


def is_plain(properties: Properties) -> bool:
    """Return whether a record can say all that the properties do."""
    flags = int.from_bytes(properties.raw[:2], "big")
    return not flags & ~(HEADERS | TIMESTAMP | DELIVERY_MODE)


def _as_bytes(value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    if isinstance(value, bool):
        return b"true" if value else b"false"
    return str(value).encode()


def record_key(exchange: str, key: str, properties: Properties) -> bytes | None:
    """Return the key of a message's record: the routing key, unless it names a queue."""
    own = properties.headers.get(KEY_HEADER)
    if own is not None:
        return _as_bytes(own)
    return key.encode() if exchange and key else None


def record_time(properties: Properties, now_ms: int) -> int:
    """Return when a message says that it was made, or now."""
    exact = properties.headers.get(TIME_HEADER)
    if isinstance(exact, int) and not isinstance(exact, bool) and 0 <= exact < 2**62:
        return exact
    if properties.timestamp is not None:
        return min(properties.timestamp, 2**52) * 1000
    return now_ms


def foreign_envelope(vhost: str, exchange: str, key: str, record: Record) -> Envelope:
    """Return what a record of another front is as a message."""
    headers = _table(record.headers)
    headers[TIME_HEADER] = record.timestamp
    if record.key is not None and (not record.key or record.key != key.encode()):
        headers[KEY_HEADER] = _as_value(record.key)
    if record.value is None:
        headers[NULL_HEADER] = True
    return Envelope(vhost, exchange, key, new_properties(headers, record.timestamp // 1000))


def _table(headers: Headers) -> dict[str, Any]:
    """Return a record's headers as a table; a name that comes more than once has a list."""
    table: dict[str, Any] = {}
    for name, data in headers:
        if name.startswith(OWN_PREFIX) or len(name.encode()) > SHORT_MAX:
            continue
        value = None if data is None else _as_value(data)
        if name not in table:
            table[name] = value
        elif isinstance(table[name], list):
            table[name].append(value)
        else:
            table[name] = [table[name], value]
    return table


def _as_value(data: bytes) -> str | bytearray:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return bytearray(data)


def routing_key(record: Record) -> str:
    """Return the routing key of a record of another front: its key, if it can be one."""
    key = record.key
    if key is None or len(key) > SHORT_MAX:
        return ""
    try:
        return key.decode()
    except UnicodeDecodeError:
        return ""


def hierarchical_key(topic: str, record: Record) -> str | None:
    """Return the routing key that a record has in `amq.topic`, or None if it can have none."""
    key = key_of_name(name_of(topic, record))
    return key if len(key.encode()) <= SHORT_MAX else None


def envelope_header(record: Record) -> bytes | None:
    """Return the value of the header that says how a message was published over AMQP."""
    for name, value in record.headers:
        if name == HEADER_NAME:
            return value
    return None


def kept_sections(record: Record) -> bytes:
    """Return what a record keeps of an AMQP 1.0 message; nothing if it is none."""
    for name, value in record.headers:
        if name == KEPT_HEADER:
            return value or b""
    return b""


def excluded(record: Record) -> frozenset[str]:
    """Return the queues that are not to get a message, because they were full."""
    for name, value in record.headers:
        if name == EXCEPT_HEADER and value:
            return frozenset(value.decode(errors="replace").split("\n"))
    return frozenset()
