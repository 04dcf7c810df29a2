"""Reads numbers of variable length from a peer's bytes."""

from chordmq.errors import DecodeError

Buffer = memoryview | bytes | bytearray

UVARINT_BITS_MAX = 35


def read_uvarint(data: Buffer, position: int) -> tuple[int, int]:
    """Return the unsigned number at `position`, and the position after it."""
    number = shift = 0
    while shift < UVARINT_BITS_MAX:
        if position >= len(data):
            raise DecodeError("the message ends inside a variable-length integer")
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, position
        shift += 7
    raise DecodeError("a variable-length integer is longer than five bytes")
