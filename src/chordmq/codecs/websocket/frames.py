"""WebSocket frames as a server sends them: whole, unmasked, with the payload in pieces."""

import struct
from collections.abc import Sequence

TEXT, BINARY = 0x1, 0x2
FINAL = 0x80
SHORT_MAX, MEDIUM_MAX = 125, 0xFFFF

_MEDIUM = struct.Struct(">BBH")
_LONG = struct.Struct(">BBQ")


def frame(opcode: int, pieces: Sequence[bytes]) -> list[bytes]:
    """Return a frame whose payload is all pieces, to be joined with others into one write."""
    size = sum(map(len, pieces))
    if size <= SHORT_MAX:
        head = bytes((FINAL | opcode, size))
    elif size <= MEDIUM_MAX:
        head = _MEDIUM.pack(FINAL | opcode, 126, size)
    else:
        head = _LONG.pack(FINAL | opcode, 127, size)
    return [head, *pieces]
