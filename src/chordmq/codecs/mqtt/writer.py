"""Writes the packets that a server sends."""

from collections.abc import Iterable, Sequence

from chordmq.codecs.mqtt import properties as kinds
from chordmq.codecs.mqtt.fields import write_number, write_short
from chordmq.codecs.mqtt.packets import V5
from chordmq.codecs.mqtt.properties import NONE, Properties, write_properties
from chordmq.codecs.mqtt.reasons import (
    FAILURE_MIN,
    RETURN_CODES,
    SERVER_UNAVAILABLE_RETURN_CODE,
    SUBACK_FAILURE,
    Reason,
)
from chordmq.records.varint import SMALL, UVARINTS, uvarint

PINGRESP = b"\xd0\0"
RETAIN, DUPLICATE = 1, 8
PUBACK = b"\x40\x02"
"""What stands before the packet identifier, where all is well."""
_PUBLISH_QOS_1 = b"\x32"


def connack(
    version: int, reason: Reason, *, has_session: bool = False, properties: Properties = NONE
) -> bytes:
    """Return CONNACK."""
    if version == V5:
        return _packet(
            kinds.CONNACK << 4, bytes((has_session, reason)) + write_properties(properties)
        )
    code = RETURN_CODES.get(reason, SERVER_UNAVAILABLE_RETURN_CODE)
    return bytes((kinds.CONNACK << 4, 2, has_session, code))


def pubacks(ids: Sequence[bytes]) -> bytes:
    """Return PUBACK for packet identifiers as they came, one after another; at least one."""
    return PUBACK + PUBACK.join(ids)


def ack(
    kind: int, number: int, version: int, reason: int = 0, properties: Properties = NONE
) -> bytes:
    """Return PUBACK, PUBREC, PUBREL or PUBCOMP."""
    first = kind << 4 | (2 if kind == kinds.PUBREL else 0)
    body = write_short(number)
    if version == V5 and (reason or properties is not NONE):
        body += bytes((reason,))
        if properties is not NONE:
            body += write_properties(properties)
    return _packet(first, body)


def suback(
    number: int, reasons: Sequence[int], version: int, properties: Properties = NONE
) -> bytes:
    """Return SUBACK."""
    body = write_short(number)
    if version == V5:
        return _packet(kinds.SUBACK << 4, body + write_properties(properties) + bytes(reasons))
    codes = bytes(SUBACK_FAILURE if reason >= FAILURE_MIN else reason for reason in reasons)
    return _packet(kinds.SUBACK << 4, body + codes)


def unsuback(number: int, reasons: Sequence[int], version: int) -> bytes:
    """Return UNSUBACK."""
    body = write_short(number)
    if version == V5:
        body += b"\0" + bytes(reasons)
    return _packet(kinds.UNSUBACK << 4, body)


def disconnect(reason: int, properties: Properties = NONE) -> bytes:
    """Return DISCONNECT, which a server sends in MQTT 5 only."""
    return _packet(kinds.DISCONNECT << 4, bytes((reason,)) + write_properties(properties))


def auth(reason: int, properties: Properties) -> bytes:
    """Return AUTH."""
    return _packet(kinds.AUTH << 4, bytes((reason,)) + write_properties(properties))


def publish_all(first: int, head: bytes, payloads: Iterable[bytes]) -> bytes:
    """Return messages of QoS 0 with the same head: topic and, in MQTT 5, properties."""
    size, lengths = len(head), UVARINTS
    start = bytes((first,))
    out: list[bytes] = []
    for payload in payloads:
        length = size + len(payload)
        out += (start, lengths[length] if length < SMALL else uvarint(length), head, payload)
    return b"".join(out)


def publish_each(
    first: int, parts: tuple[bytes, bytes], ids: Sequence[int], payloads: Iterable[bytes]
) -> bytes:
    """Return messages of QoS 1 or 2; `parts` are the topic, and the properties or nothing."""
    topic, properties = parts
    size, lengths = len(topic) + 2 + len(properties), UVARINTS
    start = bytes((first,))
    out: list[bytes] = []
    for number, payload in zip(ids, payloads, strict=True):
        length = size + len(payload)
        out += (
            start,
            lengths[length] if length < SMALL else uvarint(length),
            topic,
            number.to_bytes(2, "big"),
            properties,
            payload,
        )
    return b"".join(out)


def publish_each_to(
    topics: Iterable[bytes], ids: Iterable[int], payloads: Iterable[bytes], end_of_head: bytes
) -> bytes:
    """Return messages of QoS 1, each with its topic, its number and its payload."""
    more, lengths = 2 + len(end_of_head), UVARINTS
    out: list[bytes] = []
    for topic, number, payload in zip(topics, ids, payloads, strict=True):
        length = len(topic) + more + len(payload)
        size = lengths[length] if length < SMALL else uvarint(length)
        out += (_PUBLISH_QOS_1, size, topic, number.to_bytes(2, "big"), end_of_head, payload)
    return b"".join(out)


def publish_size(head: int, payload: int) -> int:
    """Return how many bytes a message takes whose head and payload have so many."""
    length = head + payload
    return 1 + len(write_number(length)) + length


def _packet(first: int, body: bytes) -> bytes:
    return bytes((first,)) + write_number(len(body)) + body
