"""The provider's binary frames: `[type:1][message id:8][length:4][payload]`, all big-endian.

Frames that come often are binary: DATA, ACK, COMMIT_OFFSET and HEARTBEAT. The others carry JSON,
see `messages`. What stands where, byte by byte: docs/protocols/provider.md.
"""

import struct
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple

from chordmq.errors import DecodeError
from chordmq.records.record import Headers, NewRecord, Record, RecordRun

HEAD = struct.Struct(">BQi")
HEAD_SIZE = HEAD.size
NOBODY = 0
"""The message id of frames that want no answer."""
OFFSET_BITS = 48
OFFSET_MAX = (1 << OFFSET_BITS) - 1
PARTITION_MAX = (1 << (64 - OFFSET_BITS)) - 1

_ID = struct.Struct(">Q")
_ID_AT = 1
_SHORT = struct.Struct(">H")
_LONG = struct.Struct(">i")
_PLACE = struct.Struct(">iqi")
_PUSH = struct.Struct(">BQiHqi")
_TAIL = struct.Struct(">Hi")
_STORED = struct.Struct(">BQiHiq")
_STATUS = struct.Struct(">H")
_ANSWER = struct.Struct(">BQ")
_COMMIT = struct.Struct(">iq")

_new = tuple.__new__  # half the time of calling the class

_PUSH_SIZE = _PUSH.size - HEAD_SIZE + _TAIL.size
_STORED_SIZE = _STORED.size - HEAD_SIZE


class Type(IntEnum):
    """What a frame is."""

    DATA = 1
    ACK = 2
    SUBSCRIBE = 3
    COMMIT_OFFSET = 4
    RESET = 5
    READY = 6
    DISCONNECT = 7
    HEARTBEAT = 8


class Status(IntEnum):
    """What came of a frame, in an ACK of the node; or why it hangs up, in a DISCONNECT."""

    OK = 0
    MALFORMED = 1
    """The frame cannot be understood, or asks for what makes no sense."""
    UNAUTHENTICATED = 2
    FORBIDDEN = 3
    UNKNOWN = 4
    """There is no such topic, partition or group."""
    OUT_OF_RANGE = 5
    """The log does not hold the offset."""
    TOO_LARGE = 6
    NOT_HELD = 7
    """The consumer does not hold the message (any more)."""
    REFUSED = 8
    """A limit or a rule of the node stands against it."""
    UNAVAILABLE = 9
    """Not now; the same may succeed later."""
    SILENT = 10
    """The client gave no sign of life."""
    FAILED = 11
    """A fault of the node; its log says more."""


Publish = tuple[str, int, NewRecord]
"""A topic, a partition (-1 for the one that the key decides on), and the message."""


Run = tuple[str, int, NewRecord | RecordRun, Sequence[int], int]
"""The same of one message, or of several that differ in their values only, with their ids and how
many bytes their frames take."""


class Acknowledgement(NamedTuple):
    """What a consumer says of the messages from one to another."""

    partition: int
    first: int
    last: int
    outcome: int


def frame(kind: Type, message_id: int, payload: bytes = b"") -> bytes:
    """Return one frame."""
    return HEAD.pack(kind, message_id, len(payload)) + payload


def message_id(partition: int, offset: int) -> int:
    """Return the id under which a record is pushed: its place in the topic."""
    return partition << OFFSET_BITS | offset


def read_publish(data: bytes, now_ms: int) -> Publish:
    """Read a DATA frame of a client, or raise DecodeError."""
    try:
        (size,) = _SHORT.unpack_from(data, HEAD_SIZE)
        at = HEAD_SIZE + _SHORT.size + size
        topic = str(data[HEAD_SIZE + _SHORT.size : at], "utf-8")
        partition, timestamp, size = _PLACE.unpack_from(data, at)
        key, at = _read_bytes(data, at + _PLACE.size, size)
        headers: Headers = ()
        count, size = _TAIL.unpack_from(data, at)
        if count:
            headers, at = _read_headers(data, at)
            (size,) = _LONG.unpack_from(data, at)
            at += _LONG.size
        else:
            at += _TAIL.size
        value, at = _read_bytes(data, at, size)
    except (struct.error, UnicodeDecodeError) as error:
        raise DecodeError(f"a DATA frame is malformed: {error}") from None
    if at != len(data):
        raise DecodeError(f"{len(data) - at} bytes follow the value of a DATA frame")
    if timestamp < 0:
        timestamp = now_ms
    return topic, partition, _new(NewRecord, (timestamp, key, value, headers))


def read_run(frames: Sequence[bytes], start: int, now_ms: int, size_max: int) -> Run:
    """Read the DATA frame at a place, or raise DecodeError, and the alike ones right behind it.

    They are told by their bytes: all before the value is the same, but for the id and the sizes.
    More than one frame takes at most `size_max` bytes.
    """
    first = frames[start]
    topic, partition, record = read_publish(first, now_ms)
    value = record[2]
    if value is not None and start + 1 < len(frames):
        at = len(first) - len(value)
        head = first[HEAD_SIZE : at - _LONG.size]
        stop, size = _end_of_run(frames, start, head, size_max)
        if stop > start + 1:
            ids = [_ID.unpack_from(one, _ID_AT)[0] for one in frames[start:stop]]
            values = [one[at:] for one in frames[start:stop]]
            return topic, partition, RecordRun(record[0], record[1], record[3], values), ids, size
    return topic, partition, record, _ID.unpack_from(first, _ID_AT), len(first)


def _end_of_run(frames: Sequence[bytes], start: int, head: bytes, size_max: int) -> tuple[int, int]:
    """Return where frames with a head end that are whole, and how many bytes they take."""
    size_at = HEAD_SIZE + len(head)
    value_at = size_at + _LONG.size
    stop, size = start + 1, len(frames[start])
    while stop < len(frames) and (other := frames[stop]).startswith(head, HEAD_SIZE):
        length = len(other)
        if length < value_at or _LONG.unpack_from(other, size_at)[0] != length - value_at:
            break
        if size + length > size_max:
            break
        size += length
        stop += 1
    return stop, size


def _read_bytes(data: bytes, at: int, size: int) -> tuple[bytes | None, int]:
    if size < 0:
        if size != -1:
            raise DecodeError(f"a size of {size}; -1 stands for nothing")
        return None, at
    stop = at + size
    if stop > len(data):
        raise DecodeError("a DATA frame ends inside its payload")
    return data[at:stop], stop


def _read_headers(data: bytes, at: int) -> tuple[Headers, int]:
    (count,) = _SHORT.unpack_from(data, at)
    at += _SHORT.size
    if not count:
        return (), at
    headers = []
    for _ in range(count):
        (size,) = _SHORT.unpack_from(data, at)
        name, at = _read_bytes(data, at + _SHORT.size, size)
        assert name is not None
        (size,) = _LONG.unpack_from(data, at)
        value, at = _read_bytes(data, at + _LONG.size, size)
        headers.append((str(name, "utf-8"), value))
    return tuple(headers), at


def write_push(out: list[bytes], partition: int, record: Record, deliveries: int) -> int:
    """Add the DATA frame of a record to what is sent, in pieces; return its size."""
    offset, timestamp, key, value, headers = record
    key_size = -1 if key is None else len(key)
    value_size = -1 if value is None else len(value)
    size = _PUSH_SIZE + len(key or b"") + len(value or b"")
    place = partition << OFFSET_BITS | offset
    if headers:
        extra = write_headers(headers)
        size += len(extra) - _SHORT.size
        tail = extra + _LONG.pack(value_size)
    else:
        tail = _TAIL.pack(0, value_size)
    out.append(_PUSH.pack(Type.DATA, place, size, min(deliveries, 0xFFFF), timestamp, key_size))
    if key:
        out.append(key)
    out.append(tail)
    if value:
        out.append(value)
    return size


def write_headers(headers: Headers) -> bytes:
    """Return the number of headers, and each name and value with its size before it."""
    parts = [_SHORT.pack(len(headers))]
    for name, value in headers:
        encoded = name.encode()
        parts += (_SHORT.pack(len(encoded)), encoded)
        parts += (_LONG.pack(-1),) if value is None else (_LONG.pack(len(value)), value)
    return b"".join(parts)


def read_acknowledgement(data: bytes) -> Acknowledgement:
    """Read an ACK frame of a consumer: one message or, with a last id, several."""
    first = HEAD.unpack_from(data)[1]
    partition, offset = first >> OFFSET_BITS, first & OFFSET_MAX
    if len(data) == HEAD_SIZE:
        return Acknowledgement(partition, offset, offset, 1)
    if len(data) == HEAD_SIZE + 1:
        return Acknowledgement(partition, offset, offset, data[HEAD_SIZE])
    if len(data) != HEAD_SIZE + _ANSWER.size:
        raise DecodeError("an ACK has no payload, an outcome, or an outcome and a last id")
    outcome, last = _ANSWER.unpack_from(data, HEAD_SIZE)
    if last >> OFFSET_BITS != partition or last < first:
        raise DecodeError("the last id of an ACK lies after the first, in the same partition")
    return Acknowledgement(partition, offset, last & OFFSET_MAX, outcome)


def read_commits(data: bytes) -> list[tuple[int, int]]:
    """Read a COMMIT_OFFSET frame: partitions, and the offset of the next message in each."""
    size = len(data) - HEAD_SIZE
    if not size or size % _COMMIT.size:
        raise DecodeError("a COMMIT_OFFSET holds one or more of [partition:4][offset:8]")
    return list(_COMMIT.iter_unpack(data[HEAD_SIZE:]))


def stored(ids: Sequence[int], partition: int, first_offset: int) -> bytes:
    """Return an ACK for each message of a client, which lie one after the other."""
    pack, kind, status = _STORED.pack, Type.ACK, Status.OK
    return b"".join(
        [
            pack(kind, one, _STORED_SIZE, status, partition, offset)
            for offset, one in enumerate(ids, first_offset)
        ]
    )


def accepted(message_id: int, payload: bytes = b"") -> bytes:
    """Return the ACK for a frame that was carried out."""
    return frame(Type.ACK, message_id, _STATUS.pack(Status.OK) + payload)


def refused(ids: Iterable[int], status: Status, text: str) -> bytes:
    """Return the ACKs that say what is wrong with frames of a client."""
    payload = _STATUS.pack(status) + text.encode()
    return b"".join(frame(Type.ACK, one, payload) for one in ids)


def goodbye(status: Status, text: str) -> bytes:
    """Return the frame after which the node hangs up."""
    return frame(Type.DISCONNECT, NOBODY, _STATUS.pack(status) + text.encode())
