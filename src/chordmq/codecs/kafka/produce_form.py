"""Produce requests that differ from the one before in nothing but their batch.

A producer that sends small batches to one partition repeats itself: the bytes around the batch stay
the same, apart from the correlation id and the batch's size. Comparing them costs a fraction of
reading them.
"""

import struct

from chordmq.codecs.cursor import read_uvarint
from chordmq.codecs.kafka.header import response_head
from chordmq.codecs.kafka.produce import FLEXIBLE_SINCE, PartitionAnswer, write_response
from chordmq.errors import DecodeError
from chordmq.records.varint import uvarint

PRODUCE = 0
STARTS_SINCE = 5
"""From this version on an answer says where the log starts."""
CORRELATION_START, CORRELATION_END = 4, 8
"""Of a request and, with the size before it, of its answer."""

_SIZE = struct.Struct(">i")
_TAKEN = struct.Struct(">qqq")
_NOTHING = _TAKEN.pack(-1, -1, -1)


class ProduceForm:
    """What stands around the batch in requests of one producer to one partition."""

    __slots__ = ("_after", "_answer", "_api", "_is_flexible", "_taken_at", "before", "size_at")

    def __init__(self, frame: memoryview, batch: memoryview, answer: PartitionAnswer) -> None:
        """Take the form of a request with this batch alone; `answer` is still to be filled in."""
        (version,) = struct.unpack_from(">h", frame, 2)
        self._is_flexible = version >= FLEXIBLE_SINCE
        self._after = b"\0\0\0" if self._is_flexible else b""
        """No tagged fields of partition, topic and request."""
        start = len(frame) - len(self._after) - len(batch)
        size = len(uvarint(len(batch) + 1)) if self._is_flexible else _SIZE.size
        self.size_at = start - size
        """Where the size of the batch stands."""
        self._api = bytes(frame[:4])
        self.before = bytes(frame[CORRELATION_END : self.size_at])
        """What stands between the correlation id and that size, and names the partition."""
        body = write_response([answer], version)
        head = response_head(0, PRODUCE, version)
        self._answer = _SIZE.pack(len(head) + len(body)) + head + body
        self._taken_at = self._answer.rindex(_NOTHING)

    def batch(self, frame: memoryview) -> memoryview | None:
        """Return the batch of a request of this form, or None if it has another."""
        at, after = self.size_at, self._after
        if len(frame) < at + _SIZE.size + len(after):
            return None
        head = bytes(frame[:at])  # compared in one piece, where a view is item by item
        if not (head.endswith(self.before) and head.startswith(self._api)):
            return None
        if self._is_flexible:
            try:
                size, start = read_uvarint(frame, at)
            except DecodeError:
                return None
            size -= 1
        else:
            (size,) = _SIZE.unpack_from(frame, at)
            start = at + _SIZE.size
        end = start + size
        if size <= 0 or end + len(after) != len(frame) or bytes(frame[end:]) != after:
            return None
        return frame[start:end]

    def answer(
        self, correlation: bytes, base_offset: int, append_time_ms: int, start_offset: int
    ) -> bytearray:
        """Write the whole answer for a batch that was taken, size and head included."""
        out = bytearray(self._answer)
        out[CORRELATION_START:CORRELATION_END] = correlation
        _TAKEN.pack_into(out, self._taken_at, base_offset, append_time_ms, start_offset)
        return out


def form_of(
    frame: memoryview, version: int, batch: memoryview, answer: PartitionAnswer
) -> ProduceForm | None:
    """Return the form of a request with one batch, or None if it has tags or is too old."""
    if version < STARTS_SINCE:
        return None
    form = ProduceForm(frame, batch, answer)
    return form if form.batch(frame) == batch else None
