"""Frames that a node pushes to the consumer application, read from bytes as they come (pure)."""

import struct
from typing import NamedTuple

from chordmq.codecs.provider.frames import HEAD, OFFSET_BITS, OFFSET_MAX, Type

NULL = -1

_PUSH = struct.Struct(">Hq")
_SIZE = struct.Struct(">i")
_SHORT = struct.Struct(">H")


class Frame(NamedTuple):
    """One frame as it came."""

    kind: int
    id: int
    payload: bytes

    @property
    def partition(self) -> int:
        """Return the partition of a pushed message."""
        return self.id >> OFFSET_BITS

    @property
    def offset(self) -> int:
        """Return the offset of a pushed message."""
        return self.id & OFFSET_MAX

    @property
    def is_pushed(self) -> bool:
        """Return whether it is a message or a marker of the topic."""
        return self.kind in (Type.DATA, Type.RESET, Type.READY)


class Message(NamedTuple):
    """A pushed message, taken apart."""

    timestamp: int
    key: bytes | None
    headers: list[tuple[str, bytes | None]]
    value: bytes | None


def split(buffer: bytearray) -> list[Frame]:
    """Take all whole frames from the beginning of a buffer."""
    frames, at = [], 0
    while len(buffer) - at >= HEAD.size:
        kind, number, size = HEAD.unpack_from(buffer, at)
        stop = at + HEAD.size + size
        if stop > len(buffer):
            break
        frames.append(Frame(kind, number, bytes(buffer[at + HEAD.size : stop])))
        at = stop
    del buffer[:at]
    return frames


def read_message(payload: bytes) -> Message:
    """Return the message in a DATA frame of a node."""
    _, timestamp = _PUSH.unpack_from(payload)
    key, at = _sized(payload, _PUSH.size)
    (count,) = _SHORT.unpack_from(payload, at)
    at += _SHORT.size
    headers = []
    for _ in range(count):
        (length,) = _SHORT.unpack_from(payload, at)
        start = at + _SHORT.size
        name = payload[start : start + length].decode()
        content, at = _sized(payload, start + length)
        headers.append((name, content))
    value, _ = _sized(payload, at)
    return Message(timestamp, key, headers, value)


def _sized(payload: bytes, at: int) -> tuple[bytes | None, int]:
    (size,) = _SIZE.unpack_from(payload, at)
    start = at + _SIZE.size
    return (None, start) if size == NULL else (payload[start : start + size], start + size)
