"""The data types of MQTT: numbers, texts and binary data, to bytes and back."""

from functools import lru_cache

from chordmq.codecs.mqtt.errors import MalformedPacket
from chordmq.codecs.mqtt.reasons import Reason
from chordmq.records.varint import SMALL, UVARINTS, uvarint

NUMBER_MAX = 268_435_455
"""The largest number in four groups of seven bits."""
TEXT_BYTES_MAX = 65_535


def read_byte(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return the number in one byte, and where it ends."""
    if at >= end:
        raise MalformedPacket("a packet ends inside a field")
    return data[at], at + 1


def read_short(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return the number in two bytes, and where it ends."""
    if at + 2 > end:
        raise MalformedPacket("a packet ends inside a field")
    return data[at] << 8 | data[at + 1], at + 2


def read_word(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return the number in four bytes, and where it ends."""
    if at + 4 > end:
        raise MalformedPacket("a packet ends inside a field")
    return int.from_bytes(data[at : at + 4], "big"), at + 4


def read_number(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return the number of variable length, and where it ends."""
    number = shift = 0
    while True:
        if at >= end:
            raise MalformedPacket("a packet ends inside a field")
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 21:
            raise MalformedPacket("a number is longer than four bytes")
    if shift and not byte:  # MQTT-1.5.5-1: the fewest bytes that hold the number
        raise MalformedPacket("a number is longer than it must be")
    return number, at


def read_binary(data: bytes, at: int, end: int) -> tuple[bytes, int]:
    """Return binary data with its size before it, and where it ends."""
    size, at = read_short(data, at, end)
    stop = at + size
    if stop > end:
        raise MalformedPacket("a packet ends inside a field")
    return data[at:stop], stop


def read_text(data: bytes, at: int, end: int) -> tuple[str, int]:
    """Return a text with its size before it, and where it ends."""
    found, at = read_binary(data, at, end)
    return to_text(found), at


@lru_cache(16_384)
def to_text(data: bytes) -> str:
    """Return bytes as a text; MQTT-1.5.4-1, -2: well-formed UTF-8 without U+0000."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise MalformedPacket("a text is not UTF-8") from None
    if "\0" in text:
        raise MalformedPacket("a text has a null character")
    return text


@lru_cache(16_384)
def to_topic(data: bytes) -> str:
    """Return the name that a message is published to; MQTT-3.3.2-2: without wildcards."""
    name = to_text(data)
    if "+" in name or "#" in name:
        raise MalformedPacket("a topic name has a wildcard", Reason.TOPIC_NAME_INVALID)
    return name


def write_byte(number: int) -> bytes:
    """Return a number in one byte."""
    return bytes((number,))


def write_short(number: int) -> bytes:
    """Return a number in two bytes."""
    return number.to_bytes(2, "big")


def write_word(number: int) -> bytes:
    """Return a number in four bytes."""
    return number.to_bytes(4, "big")


def write_number(number: int) -> bytes:
    """Return a number of variable length."""
    assert number <= NUMBER_MAX
    return UVARINTS[number] if number < SMALL else uvarint(number)


def write_binary(data: bytes) -> bytes:
    """Return binary data with its size before it."""
    return len(data).to_bytes(2, "big") + data


def write_text(text: str) -> bytes:
    """Return a text with its size before it; one that is too long is cut."""
    data = text.encode(errors="replace")
    if len(data) > TEXT_BYTES_MAX:
        data = data[:TEXT_BYTES_MAX].decode(errors="ignore").encode()
    return write_binary(data)
