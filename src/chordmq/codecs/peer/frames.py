"""The frames of a link between two nodes: a head that says who asks what, then a body of any bytes.

The side that dialled says HELLO first, the other answers with its own or with a REFUSAL. From then
on both may ask: a REQUEST is answered by one ANSWER or REFUSAL with its number, in any order; a
NOTICE is not answered. A TRACED request is one whose body begins with its trace. Each frame names
its sender and the sender's epoch, so that what an earlier life of a node has sent can be told from
what it says now.
"""

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple, TypeVar

import msgspec

from chordmq.errors import DecodeError

VERSION = 1

M = TypeVar("M", bound=msgspec.Struct)

_HEAD = struct.Struct(">BBxxiqQ")
_SIZED_HEAD = struct.Struct(">iBBxxiqQ")

HEAD_SIZE = _HEAD.size
TRACE_SIZE = 55
"""Bytes of a W3C traceparent, which begins the body of a TRACED request."""

Body = Sequence[bytes | bytearray | memoryview]
"""The bytes of a frame after its head, in pieces that need not be joined to be sent."""


class Form(IntEnum):
    """What a frame is in the conversation."""

    HELLO = 0
    REQUEST = 1
    ANSWER = 2
    REFUSAL = 3
    NOTICE = 4
    TRACED = 5


class Kind(IntEnum):
    """What a request or a notice is about; each has one handler in a node."""

    PING = 0
    RING = 1
    FORWARD = 0x10
    REPLICA_FETCH = 0x20
    REPLICA_ANSWER = 0x21
    TRANSACTION = 0x22
    APPEND = 0x23
    AUDIT = 0x24
    CURSOR = 0x25
    READ = 0x26
    READ_CANCEL = 0x27
    READ_ANSWER = 0x28
    EXTENT = 0x29
    GROUP = 0x2A
    TUNNEL = 0x30
    SEQUENCE = 0x31
    TRIM = 0x32


class Head(NamedTuple):
    """The fixed part of every frame."""

    form: int
    kind: int
    broker: int
    """Who sends it."""
    epoch: int
    """In which of its lives."""
    number: int
    """Of the request; an answer carries that of what it answers, a notice has none."""


class Hello(msgspec.Struct, frozen=True, array_like=True):
    """The first frame of each side."""

    version: int
    cluster: str
    broker: int
    epoch: int
    uuid: str
    """Of the node's data directory: another machine with the same number is another node."""


class Refusal(msgspec.Struct, frozen=True, array_like=True):
    """Why a request was not carried out: the name of an error, and its words."""

    name: str
    text: str


def frame(head: Head, body: Body = ()) -> list[bytes | bytearray | memoryview]:
    """Return a frame as the pieces to write."""
    size = HEAD_SIZE + sum(map(len, body))
    return [_SIZED_HEAD.pack(size, *head), *body]


def read_frame(data: memoryview) -> tuple[Head, memoryview]:
    """Return the head and the body of a frame that was cut from the stream."""
    if len(data) < HEAD_SIZE:
        raise DecodeError(f"a frame of {len(data)} bytes has no head")
    return Head(*_HEAD.unpack_from(data)), data[HEAD_SIZE:]


def read_hello(body: memoryview) -> Hello:
    """Return who the other side is; raise DecodeError if it speaks another language."""
    hello = _read(body, Hello)
    if hello.version != VERSION:
        raise DecodeError(f"links of version {hello.version}; this node speaks {VERSION}")
    return hello


def read_refusal(body: memoryview) -> Refusal:
    """Return why a request was refused."""
    return _read(body, Refusal)


def written(message: msgspec.Struct) -> bytes:
    """Return a message in the form that `read_…` reads."""
    return msgspec.msgpack.encode(message)


def _read(body: memoryview, kind: type[M]) -> M:
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except msgspec.MsgspecError as error:
        raise DecodeError(f"not a {kind.__name__}: {error}") from None
