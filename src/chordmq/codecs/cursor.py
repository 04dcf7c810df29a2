"""Variable-length integers in a buffer."""

from chordmq.errors import DecodeError

UVARINT_BITS_MAX = 35
SMALL = 2048
"""Numbers below this have their bytes in the table `UVARINTS`."""


def uvarint(number: int) -> bytes:
    """Return an unsigned number in groups of seven bits, the lowest first."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


UVARINTS = tuple(uvarint(number) for number in range(SMALL))


def read_uvarint(data: memoryview | bytes, position: int) -> tuple[int, int]:
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
