"""AMQP 1.0 frames: a whole read becomes events at once, and a delivery becomes bytes at once.

A frame is size (4 bytes, all of it), data offset (1, in units of four), type (1), channel (2), and
a performative that may have a payload behind it. Protocol headers come between frames.
"""

import struct
from typing import Any, NamedTuple

from chordmq.codecs.amqp1 import values
from chordmq.codecs.amqp1.composites import (
    BY_CODE,
    BY_NAME,
    PERFORMATIVES,
    SASL,
    Composite,
    Transfer,
    from_items,
)
from chordmq.codecs.amqp1.values import DESCRIBED, read_value
from chordmq.errors import DecodeError

NAME = b"AMQP"
AMQP_HEADER = b"AMQP\x00\x01\x00\x00"
TLS_HEADER = b"AMQP\x02\x01\x00\x00"
SASL_HEADER = b"AMQP\x03\x01\x00\x00"
HEADER_SIZE = 8
FRAME_MIN = 512
"""Bytes of a frame that everybody must take."""
AMQP_TYPE, SASL_TYPE = 0, 1
EMPTY_FRAME = b"\x00\x00\x00\x08\x02\x00\x00\x00"
"""A sign of life."""

TRANSFER_OVERHEAD = 64
"""Bytes of a frame, at most, in which there is no room for a message."""

_HEAD = struct.Struct(">IBBH")
_KNOWN = frozenset(PERFORMATIVES)
_TRANSFER = b"\x00\x53\x14"
_TRANSFER_HEAD = struct.Struct(">IBBH3sBBB")


class Header(NamedTuple):
    """The protocol that the peer wants to speak from now on."""

    data: bytes


class Frame(NamedTuple):
    """A performative on a channel, and what lies behind it."""

    channel: int
    performative: Any
    payload: bytes


Event = Header | Frame


class FrameFault(DecodeError):
    """Bytes that end the connection, with the condition that says why."""

    def __init__(self, condition: str, text: str) -> None:
        super().__init__(text)
        self.condition = condition


class FrameReader:
    """Takes bytes in any pieces; gives the events that they complete."""

    def __init__(self, frame_max: int) -> None:
        self.frame_max = frame_max
        self.parts = 0
        """Bytes of messages of which only a part has come, kept elsewhere."""
        self._rest = b""

    @property
    def is_partial(self) -> bool:
        """Return whether a frame has begun and not ended."""
        return bool(self._rest)

    @property
    def held(self) -> int:
        """Return how many bytes of unfinished frames and messages are kept."""
        return len(self._rest) + self.parts

    def receive(self, data: bytes) -> list[Event]:
        """Return the events that the bytes complete; raise FrameFault for what is no frame."""
        if self._rest:
            data = self._rest + data
        events: list[Event] = []
        at, end = 0, len(data)
        while end - at >= HEADER_SIZE:
            if data.startswith(NAME, at):
                events.append(Header(data[at : at + HEADER_SIZE]))
                at += HEADER_SIZE
                continue
            size, offset, kind, channel = _HEAD.unpack_from(data, at)
            if size > self.frame_max or size < HEADER_SIZE:
                raise _framing(f"a frame of {size} bytes; {self.frame_max} are taken")
            if at + size > end:
                break
            start = at + 4 * offset
            at += size
            if not at - size + HEADER_SIZE <= start <= at:
                raise _framing(f"a frame of {size} bytes whose data begin at {4 * offset}")
            if start < at:
                events.append(read_frame(kind, channel, data[start:at]))
        self._rest = data[at:]
        return events


def read_frame(kind: int, channel: int, body: bytes) -> Frame:
    """Return a frame's performative; raise FrameFault if it has none."""
    try:
        performative, at = _read_performative(body)
    except DecodeError as fault:
        raise FrameFault("amqp:decode-error", str(fault)) from fault
    if kind not in (AMQP_TYPE, SASL_TYPE) or (kind == SASL_TYPE) != isinstance(performative, SASL):
        raise _framing(f"a frame of the type {kind} cannot have {type(performative).__name__}")
    return Frame(channel if kind == AMQP_TYPE else 0, performative, body[at:])


def _read_performative(body: bytes) -> tuple[Any, int]:
    if body[0] != DESCRIBED:
        raise DecodeError("a frame without a performative")
    descriptor, at = read_value(body, 1)
    try:
        kind = BY_CODE.get(descriptor) or BY_NAME.get(descriptor)
    except TypeError:
        kind = None
    if kind not in _KNOWN:
        raise DecodeError(f"there is no performative {descriptor!r:.60}")
    fields, at = read_value(body, at)
    return from_items(kind, fields), at


def _framing(text: str) -> FrameFault:
    return FrameFault("amqp:connection:framing-error", text)


def frame(channel: int, performative: Composite, payload: bytes = b"") -> bytes:
    """Return a performative as bytes."""
    body = performative.to_bytes()
    kind = SASL_TYPE if isinstance(performative, SASL) else AMQP_TYPE
    size = HEADER_SIZE + len(body) + len(payload)
    return _HEAD.pack(size, 2, kind, channel) + body + payload


def transfer_frame(
    channel: int, handle: bytes, delivery: tuple[int, bytes], settled: bool, message: bytes
) -> bytes:
    """Return a message in one frame; `handle` is a uint as bytes, `delivery` its id and tag."""
    fields = b"".join(
        (
            handle,
            values.uint(delivery[0]),
            b"\xa0",
            bytes((len(delivery[1]),)),
            delivery[1],
            b"\x43",
            b"\x41" if settled else b"\x42",
        )
    )
    size = 14 + len(fields) + len(message)
    head = _TRANSFER_HEAD.pack(size, 2, 0, channel, _TRANSFER, 0xC0, len(fields) + 1, 5)
    return b"".join((head, fields, message))


def message_frames(
    channel: int,
    handle: int,
    delivery: tuple[int, bytes],
    settled: bool,
    message: bytes,
    frame_max: int,
) -> list[bytes]:
    """Return the frames of a message that does not fit into one."""
    size_max = frame_max - TRANSFER_OVERHEAD
    frames = []
    for start in range(0, len(message), size_max):
        transfer = Transfer(handle=handle, more=start + size_max < len(message))
        if not start:
            transfer.delivery_id, transfer.delivery_tag = delivery
            transfer.message_format, transfer.settled = 0, settled
        frames.append(frame(channel, transfer, message[start : start + size_max]))
    return frames
