"""MQTT's messages as records of the log, and back.

| MQTT | record |
|---|---|
| topic `x/y/z` | log topic `x.y`, key `z`, header `chordmq.topic` |
| QoS 0, QoS 2 | header `chordmq.qos`; a record without it counts as QoS 1 |
| retain | header `chordmq.retain` |
| the client, if it wants some only from others, or sends QoS 2 and stays | `chordmq.sender` |
| message expiry | header `chordmq.expires`, milliseconds since 1970 |
| payload format | header `chordmq.payload-format` |
| content type, response topic, correlation data | headers of these names, with hyphens |
| user properties | headers |
| user properties `chordmq.key`, `chordmq.key-base64`, `chordmq.timestamp` | key, time |
| user property `chordmq.null` | no value, instead of an empty one |
"""

import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING

from chordmq.broker.names import NAME_HEADER, name_of
from chordmq.broker.retained import Retained
from chordmq.codecs.mqtt.fields import write_binary
from chordmq.codecs.mqtt.properties import NONE, Properties, UserProperties
from chordmq.dataclass import dataclass
from chordmq.errors import InvalidRequest
from chordmq.records.record import Headers, Record

if TYPE_CHECKING:
    from chordmq.fronts.mqtt.appends import Share
    from chordmq.fronts.mqtt.tails import Source

QOS, RETAIN, EXPIRES = "chordmq.qos", "chordmq.retain", "chordmq.expires"
PAYLOAD_FORMAT = "chordmq.payload-format"
CONTENT_TYPE, RESPONSE_TOPIC = "content-type", "response-topic"
CORRELATION_DATA = "correlation-data"
KEY, KEY_BASE64, TIMESTAMP = "chordmq.key", "chordmq.key-base64", "chordmq.timestamp"
NULL = "chordmq.null"
BASE64_SUFFIX, NULL_SUFFIX = ";base64", ";null"
"""End the name of a user property that stands for a header that is not UTF-8, or has no value."""
PARTITION, OFFSET = "chordmq.partition", "chordmq.offset"
SENDER = "chordmq.sender"
OWN = frozenset({NAME_HEADER, QOS, RETAIN, EXPIRES, PAYLOAD_FORMAT, SENDER})
DEFAULT_QOS = 1
"""Of messages that other fronts have published: the log keeps them, whoever reads."""


@dataclass(slots=True, eq=False)
class Parcel:
    """Messages of one name that lie side by side in a partition and are delivered alike."""

    name: str
    topic: bytes
    """The name as MQTT writes it, with its size before it."""
    payloads: list[bytes]
    qos: int
    base_offset: int = -1
    source: "Source | None" = None
    """Where the messages lie; None for what no log holds."""
    packets: list[bytes] | None = None
    """The messages as packets of QoS 0, if they came so."""
    version: int = 0
    """The version of MQTT of these packets."""
    retain: bool = False
    headers: Headers = ()
    """Those that a subscriber of MQTT 5 gets to see."""
    key: bytes | None = None
    timestamp_ms: int = -1
    expires_ms: int | None = None
    is_null: bool = False
    """Whether the record has no value, which MQTT shows as an empty one."""
    sender: str = ""
    """The client that has published it, as far as that is known."""
    shares: "Sequence[Share]" = ()
    """Whose the messages are, in their order, where several clients have published them."""
    written: dict[tuple[object, ...], bytes] | None = None
    """Packets for subscribers that want the same."""

    def by_sender(self) -> "list[Parcel]":
        """Return each client's messages by themselves."""
        if len(self.shares) <= 1:
            return [self]
        parcels, start = [], 0
        for share in self.shares:
            end = start + share.count
            one = Parcel(self.name, self.topic, self.payloads[start:end], self.qos)
            one.base_offset, one.source = self.base_offset + start, self.source
            one.key, one.timestamp_ms, one.sender = self.key, self.timestamp_ms, share.sender
            parcels.append(one)
            start = end
        return parcels

    @property
    def raw(self) -> bytes:
        """Return the messages as they came, if they came as packets of QoS 0."""
        assert self.packets
        if len(self.packets) > 1:
            self.packets = [b"".join(self.packets)]
        return self.packets[0]

    def __len__(self) -> int:
        return len(self.payloads)


def parcel_of(log_topic: str, record: Record) -> Parcel:
    """Return a record of the log as a message."""
    name = name_of(log_topic, record)
    parcel = Parcel(
        name=name,
        topic=write_binary(name.encode()[:65_535]),
        payloads=[record.value or b""],
        qos=DEFAULT_QOS,
        base_offset=record.offset,
        key=record.key,
        timestamp_ms=record.timestamp,
        is_null=record.value is None,
    )
    others = []
    for header, value in record.headers:
        if header == QOS:
            parcel.qos = int(value) if value in (b"0", b"2") else DEFAULT_QOS
        elif header == RETAIN:
            parcel.retain = True
        elif header == EXPIRES:
            parcel.expires_ms = int(value) if value is not None and value.isdigit() else None
        elif header == SENDER:
            parcel.sender = (value or b"").decode(errors="replace")
        elif header != NAME_HEADER:
            others.append((header, value))
    parcel.headers = tuple(others)
    return parcel


def parcel_of_retained(message: Retained) -> Parcel:
    """Return a retained message as it is delivered."""
    return Parcel(
        name=message.name,
        topic=write_binary(message.name.encode()),
        payloads=[message.payload],
        qos=message.qos,
        retain=True,
        headers=message.headers,
        timestamp_ms=message.timestamp_ms,
        expires_ms=message.expires_ms,
    )


def headers_of(name: str, qos: int, *, is_named: bool) -> Headers:
    """Return the headers of a message that has nothing but a name and a payload."""
    headers: Headers = ((NAME_HEADER, name.encode()),) if is_named else ()
    return headers if qos == DEFAULT_QOS else (*headers, (QOS, b"%d" % qos))


def sender_of(client_id: str) -> Headers:
    """Return the header that tells a client its own messages, wherever they are read."""
    return ((SENDER, client_id.encode()),)


@dataclass(frozen=True, slots=True)
class Extras:
    """What the properties of a message say of its record."""

    headers: Headers = ()
    key: bytes | None = None
    timestamp_ms: int | None = None
    is_null: bool = False


def extras_of(properties: Properties, now_ms: int) -> Extras:
    """Return what the properties of a message say of its record; raise InvalidRequest."""
    expiry_s, format_ = properties.message_expiry_s, properties.payload_format
    texts = (properties.content_type, properties.response_topic)
    known: dict[str, bytes | None] = {
        EXPIRES: None if expiry_s is None else b"%d" % (now_ms + expiry_s * 1000),
        PAYLOAD_FORMAT: None if format_ is None else b"%d" % format_,
        CONTENT_TYPE: None if texts[0] is None else texts[0].encode(),
        RESPONSE_TOPIC: None if texts[1] is None else texts[1].encode(),
        CORRELATION_DATA: properties.correlation_data,
    }
    headers: list[tuple[str, bytes | None]] = []
    headers += ((name, value) for name, value in known.items() if value is not None)
    key, timestamp_ms, is_null = None, None, False
    for name, value in properties.user:
        if name == KEY:
            key = value.encode()
        elif name == KEY_BASE64:
            key = _from_base64(value)
        elif name == TIMESTAMP:
            timestamp_ms = _time(value)
        elif name == NULL:
            is_null = True
        elif name not in OWN:
            headers.append(_header(name, value))
    return Extras(tuple(headers), key, timestamp_ms, is_null)


def _header(name: str, value: str) -> tuple[str, bytes | None]:
    """Return the header that a user property stands for."""
    if name.endswith(NULL_SUFFIX):
        return name.removesuffix(NULL_SUFFIX), None
    if name.endswith(BASE64_SUFFIX):
        return name.removesuffix(BASE64_SUFFIX), _from_base64(value)
    return name, value.encode()


def properties_of(parcel: Parcel, *, is_full: bool, index: int = 0) -> Properties:
    """Return the properties of a message; `is_full` adds where and when the log got it."""
    if not parcel.headers and not is_full:
        return NONE
    known: dict[str, bytes] = {}
    user: list[tuple[str, str]] = []
    for name, value in parcel.headers:
        if name in OWN or name in (CONTENT_TYPE, RESPONSE_TOPIC, CORRELATION_DATA):
            if name not in known:
                known[name] = value or b""
                continue
            if name in OWN:
                continue
        user.append(_user_property(name, value))
    if is_full:
        user += _whereabouts(parcel, index)
    format_ = known.get(PAYLOAD_FORMAT)
    return Properties(
        payload_format=1 if format_ == b"1" else 0 if format_ == b"0" else None,
        content_type=_text(known.get(CONTENT_TYPE)),
        response_topic=_text(known.get(RESPONSE_TOPIC)),
        correlation_data=known.get(CORRELATION_DATA),
        user=tuple(user),
    )


def _whereabouts(parcel: Parcel, index: int) -> UserProperties:
    where: list[tuple[str, str]] = []
    if parcel.source is not None:
        where.append((PARTITION, str(parcel.source.partition.index)))
        where.append((OFFSET, str(parcel.base_offset + index)))
    if parcel.timestamp_ms >= 0:
        where.append((TIMESTAMP, str(parcel.timestamp_ms)))
    if parcel.is_null:
        where.append((NULL, "true"))
    if parcel.key is not None:
        try:
            where.append((KEY, _checked(parcel.key)))
        except UnicodeDecodeError:
            where.append((KEY_BASE64, base64.b64encode(parcel.key).decode()))
    return tuple(where)


def _user_property(name: str, value: bytes | None) -> tuple[str, str]:
    if value is None:
        return name + NULL_SUFFIX, ""
    try:
        return name, _checked(value)
    except UnicodeDecodeError:
        return name + BASE64_SUFFIX, base64.b64encode(value).decode()


def _checked(value: bytes) -> str:
    """Return bytes as a text that MQTT can carry."""
    if b"\0" in value or len(value) > 65_535:
        raise UnicodeDecodeError("utf-8", value[:1], 0, 1, "MQTT has no such text")
    return value.decode()


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="replace").replace("\0", "")


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise InvalidRequest("a user property is not base64") from None


def _time(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise InvalidRequest(f"{TIMESTAMP} is no time in milliseconds")
    return int(text)
