"""The properties of MQTT 5 packets: which there are, where each may stand, to bytes and back."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any, NamedTuple

from chordmq.codecs.mqtt.errors import MalformedPacket, ProtocolError
from chordmq.codecs.mqtt.fields import (
    read_binary,
    read_byte,
    read_number,
    read_short,
    read_text,
    read_word,
    write_binary,
    write_byte,
    write_number,
    write_short,
    write_text,
    write_word,
)
from chordmq.dataclass import dataclass

CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP = range(1, 8)
SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK, PINGREQ, PINGRESP, DISCONNECT, AUTH = range(8, 16)
WILL = 16
"""Not a packet: the properties of a will inside CONNECT."""
ACKNOWLEDGEMENTS = frozenset({PUBACK, PUBREC, PUBREL, PUBCOMP, SUBACK, UNSUBACK})

UserProperties = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Properties:
    """All properties that a packet can have; None where it has not."""

    payload_format: int | None = None
    message_expiry_s: int | None = None
    content_type: str | None = None
    response_topic: str | None = None
    correlation_data: bytes | None = None
    subscription_ids: tuple[int, ...] = ()
    session_expiry_s: int | None = None
    assigned_client_id: str | None = None
    server_keep_alive_s: int | None = None
    authentication_method: str | None = None
    authentication_data: bytes | None = None
    request_problem: int | None = None
    will_delay_s: int | None = None
    request_response: int | None = None
    response_information: str | None = None
    server_reference: str | None = None
    reason_string: str | None = None
    receive_maximum: int | None = None
    topic_alias_maximum: int | None = None
    topic_alias: int | None = None
    maximum_qos: int | None = None
    retain_available: int | None = None
    user: UserProperties = ()
    maximum_packet_size: int | None = None
    wildcard_available: int | None = None
    subscription_id_available: int | None = None
    shared_available: int | None = None


NONE = Properties()


class _Kind(NamedTuple):
    """How a property is written, and what its value may be."""

    identifier: int
    read: Callable[[bytes, int, int], tuple[Any, int]]
    write: Callable[[Any], bytes]
    packets: frozenset[int]
    low: int = 0
    high: int | None = None


_MESSAGE = frozenset({PUBLISH, WILL})
_GREETING = frozenset({CONNECT, CONNACK})
_LOGIN = frozenset({CONNECT, CONNACK, AUTH})
_ANSWER = frozenset({CONNACK})
_REASON = ACKNOWLEDGEMENTS | {CONNACK, DISCONNECT, AUTH}
_EVERY = frozenset(range(CONNECT, WILL + 1)) - {PINGREQ, PINGRESP}
_BYTE, _SHORT = (read_byte, write_byte), (read_short, write_short)
_WORD, _TEXT = (read_word, write_word), (read_text, write_text)
_BINARY, _NUMBER = (read_binary, write_binary), (read_number, write_number)

KINDS: dict[str, _Kind] = {
    "payload_format": _Kind(0x01, *_BYTE, _MESSAGE, 0, 1),
    "message_expiry_s": _Kind(0x02, *_WORD, _MESSAGE),
    "content_type": _Kind(0x03, *_TEXT, _MESSAGE),
    "response_topic": _Kind(0x08, *_TEXT, _MESSAGE),
    "correlation_data": _Kind(0x09, *_BINARY, _MESSAGE),
    "subscription_ids": _Kind(0x0B, *_NUMBER, frozenset({PUBLISH, SUBSCRIBE}), 1),
    "session_expiry_s": _Kind(0x11, *_WORD, _GREETING | {DISCONNECT}),
    "assigned_client_id": _Kind(0x12, *_TEXT, _ANSWER),
    "server_keep_alive_s": _Kind(0x13, *_SHORT, _ANSWER),
    "authentication_method": _Kind(0x15, *_TEXT, _LOGIN),
    "authentication_data": _Kind(0x16, *_BINARY, _LOGIN),
    "request_problem": _Kind(0x17, *_BYTE, frozenset({CONNECT}), 0, 1),
    "will_delay_s": _Kind(0x18, *_WORD, frozenset({WILL})),
    "request_response": _Kind(0x19, *_BYTE, frozenset({CONNECT}), 0, 1),
    "response_information": _Kind(0x1A, *_TEXT, _ANSWER),
    "server_reference": _Kind(0x1C, *_TEXT, frozenset({CONNACK, DISCONNECT})),
    "reason_string": _Kind(0x1F, *_TEXT, _REASON),
    "receive_maximum": _Kind(0x21, *_SHORT, _GREETING, 1),
    "topic_alias_maximum": _Kind(0x22, *_SHORT, _GREETING),
    "topic_alias": _Kind(0x23, *_SHORT, frozenset({PUBLISH})),
    "maximum_qos": _Kind(0x24, *_BYTE, _ANSWER, 0, 1),
    "retain_available": _Kind(0x25, *_BYTE, _ANSWER, 0, 1),
    "user": _Kind(0x26, *_TEXT, _EVERY),
    "maximum_packet_size": _Kind(0x27, *_WORD, _GREETING, 1),
    "wildcard_available": _Kind(0x28, *_BYTE, _ANSWER, 0, 1),
    "subscription_id_available": _Kind(0x29, *_BYTE, _ANSWER, 0, 1),
    "shared_available": _Kind(0x2A, *_BYTE, _ANSWER, 0, 1),
}
"""By the field's name; the ranges are those that MQTT 5 calls a protocol error to leave."""

_NAMES = {kind.identifier: name for name, kind in KINDS.items()}
_ORDER = [(one.name, KINDS[one.name]) for one in fields(Properties)]


def read_properties(data: bytes, at: int, end: int, packet: int) -> tuple[Properties, int]:
    """Return the properties that begin at `at` and where they end."""
    size, at = read_number(data, at, end)
    stop = at + size
    if stop > end:
        raise MalformedPacket("properties are longer than their packet")
    if not size:
        return NONE, at
    values: dict[str, Any] = {}
    while at < stop:
        identifier, at = read_number(data, at, stop)
        name = _NAMES.get(identifier)
        if name is None or packet not in KINDS[name].packets:
            raise MalformedPacket(f"the property {identifier} has no place in packet {packet}")
        at = _read_one(name, KINDS[name], values, (data, at, stop))
    if "subscription_ids" in values and packet == SUBSCRIBE and len(values["subscription_ids"]) > 1:
        raise ProtocolError("a subscription has two identifiers")
    return Properties(**values), at


def _read_one(name: str, kind: _Kind, values: dict[str, Any], place: tuple[bytes, int, int]) -> int:
    """Add one property to the values, and return where it ends."""
    data, at, stop = place
    value, at = kind.read(data, at, stop)
    if name == "user":
        text, at = read_text(data, at, stop)
        values[name] = (*values.get(name, ()), (value, text))
        return at
    if isinstance(value, int) and not kind.low <= value <= (kind.high or value):
        raise ProtocolError(f"{name} is {value}")
    if name == "subscription_ids":
        values[name] = (*values.get(name, ()), value)
        return at
    if name in values:
        raise ProtocolError(f"{name} is there twice")
    values[name] = value
    return at


def write_properties(properties: Properties) -> bytes:
    """Return properties with their length before them."""
    if properties is NONE:
        return b"\0"
    body = write_values(properties)
    return write_number(len(body)) + body


def write_values(properties: Properties) -> bytes:
    """Return properties without their length, to be joined with others."""
    body = bytearray()
    for name, kind in _ORDER:
        value = getattr(properties, name)
        if value is None or value == ():
            continue
        if name == "user":
            for key, text in value:
                body += b"\x26" + write_text(key) + write_text(text)
        elif name == "subscription_ids":
            for number in value:
                body += b"\x0b" + write_number(number)
        else:
            body.append(kind.identifier)
            body += kind.write(value)
    return bytes(body)
