"""Fetch requests that differ from the one before in nothing but where they go on.

A consumer of one partition repeats itself: apart from the correlation id, the offset and, in a
session, the session's epoch, the bytes stay the same. Comparing them costs a fraction of reading
them, and so does an answer that differs from the last one in a few numbers.
"""

import struct
from typing import NamedTuple

from msgspec.structs import replace

from chordmq.codecs.kafka.fetch import (
    FLEXIBLE_SINCE,
    TOPIC_IDS_SINCE,
    Buffer,
    PartitionRecords,
    TopicRecords,
    write_response,
)
from chordmq.codecs.kafka.header import response_head
from chordmq.codecs.kafka.messages.fetch import FetchRequest
from chordmq.codecs.kafka.schema import decode
from chordmq.errors import DecodeError
from chordmq.records.varint import uvarint

FETCH = 1
SIZE_MAX = 1024
"""Bytes of a request that is compared; one for one partition is far smaller."""
SESSIONS_SINCE = 7
EPOCHS_SINCE = 9
STARTS_SINCE = 5
"""From this version on an answer says where the log starts."""
NO_REPLICA_ID_SINCE = 15

_CORRELATION = slice(4, 8)
_SIZE = struct.Struct(">i")
_EPOCH = struct.Struct(">i")
_OFFSET = struct.Struct(">q")
_ENDS_V4 = struct.Struct(">qq")
_ENDS_V5 = struct.Struct(">qqq")
_LIMITS_SIZE = 13  # longest wait, least and most bytes, isolation level
_UNKNOWN = (0x5A5A5A5A5A5A5A5A,) * 3  # where the ends are filled in
_PROBE = 0x3C3C3C3C


class Continued(NamedTuple):
    """What is new in a request."""

    offset: int
    session_epoch: int


class FetchForm:
    """What is the same in requests of one consumer for one partition, and in their answers."""

    __slots__ = ("_answer", "_ends", "_ends_at", "_epoch_at", "_form", "_offset_at", "_tail")

    def __init__(
        self, frame: memoryview, body: int, version: int, answer: tuple[TopicRecords, int]
    ) -> None:
        """Take the form of a request for one partition whose body begins at `body`.

        The answer is a topic with one row, and the id of the session.
        """
        topic, session_id = answer
        self._epoch_at, self._offset_at = _places(body, version, topic.topic)
        self._form = self._blanked(frame)
        row = PartitionRecords(topic.partitions[0].index, 0, *_UNKNOWN, [memoryview(b"\0")])
        topic = TopicRecords(topic.topic, topic.topic_id, [row])
        before, _, after = write_response([topic], version, 0, session_id)
        is_flexible = version >= FLEXIBLE_SINCE
        size = len(uvarint(1 + 1)) if is_flexible else _SIZE.size
        self._answer = response_head(0, FETCH, version) + before[:-size]
        self._tail = bytes(after)
        assert bool(after) is is_flexible, "tagged fields follow the batches, or nothing does"
        self._ends = _ENDS_V5 if version >= STARTS_SINCE else _ENDS_V4
        self._ends_at = self._answer.rindex(self._ends.pack(*_UNKNOWN[: self._ends.size // 8]))

    def continued(self, frame: memoryview) -> Continued | None:
        """Return what is new in a request of this form, or None if it has another."""
        if len(frame) != len(self._form) or self._blanked(frame) != self._form:
            return None
        (offset,) = _OFFSET.unpack_from(frame, self._offset_at)
        epoch = _EPOCH.unpack_from(frame, self._epoch_at)[0] if self._epoch_at else 0
        return Continued(offset, epoch)

    def answer(
        self, correlation: bytes, ends: tuple[int, int, int], size: int
    ) -> tuple[bytes, bytes]:
        """Write what stands before and after so many bytes of batches, frame size included.

        The ends are high watermark, last stable offset and start of the log.
        """
        out = bytearray(self._answer)
        out[:4] = correlation
        self._ends.pack_into(out, self._ends_at, *ends[: self._ends.size // 8])
        out += uvarint(size + 1) if self._tail else _SIZE.pack(size)
        return _SIZE.pack(len(out) + size + len(self._tail)) + out, self._tail

    def probe(self) -> bytes:
        """Return a request of this form with a number of our own in each place."""
        return bytes(self._with(self._form, _PROBE))

    def _blanked(self, frame: memoryview) -> bytearray:
        """Return a request without what differs from one to the next."""
        return self._with(frame, 0)

    def _with(self, frame: Buffer, number: int) -> bytearray:
        changed = bytearray(frame)
        changed[_CORRELATION] = bytes(4)
        _OFFSET.pack_into(changed, self._offset_at, number)
        if self._epoch_at:
            _EPOCH.pack_into(changed, self._epoch_at, number)
        return changed


def form_of(
    frame: memoryview, body: int, request: FetchRequest, answer: tuple[TopicRecords, int]
) -> FetchForm | None:
    """Return the form of a request for one partition, or None if it is not sure to have one.

    It is sure if a request with another offset and epoch in their places is read as just that.
    """
    (version,) = struct.unpack_from(">h", frame, 2)
    if len(frame) > SIZE_MAX:
        return None
    try:
        form = FetchForm(frame, body, version, answer)
        changed = decode(FetchRequest, version, form.probe(), body)
    except (struct.error, DecodeError):
        return None
    epoch = _PROBE if version >= SESSIONS_SINCE else request.session_epoch
    [topic] = request.topics
    [row] = topic.partitions
    expected = replace(
        request,
        session_epoch=epoch,
        topics=[replace(topic, partitions=[replace(row, fetch_offset=_PROBE)])],
    )
    return form if changed == expected else None


def _places(body: int, version: int, topic: str) -> tuple[int, int]:
    """Return where the epoch of the session (0 before there were any) and the offset stand."""
    at = body + _LIMITS_SIZE + (0 if version >= NO_REPLICA_ID_SINCE else 4)
    epoch_at = 0
    if version >= SESSIONS_SINCE:
        epoch_at = at + 4
        at += 8
    name = topic.encode()
    if version >= TOPIC_IDS_SINCE:
        at += 1 + 16 + 1
    elif version >= FLEXIBLE_SINCE:
        at += 1 + len(uvarint(len(name) + 1)) + len(name) + 1
    else:
        at += 4 + 2 + len(name) + 4
    return epoch_at, at + 4 + (4 if version >= EPOCHS_SINCE else 0)
