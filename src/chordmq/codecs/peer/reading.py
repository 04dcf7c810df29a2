"""What nodes that have no copy of a partition and nodes that have one tell each other about it.

A reader's node asks from an offset on, and is answered once, when there is something to say. Only
records whose transactions are decided travel, as they lie in the log, each answer in one notice.
"""

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from chordmq.dataclass import dataclass
from chordmq.errors import DecodeError
from chordmq.records.batch import walk

_READ = struct.Struct(">q16siqiI")
_CANCEL = struct.Struct(">q")
_ANSWER = struct.Struct(">qBqqI")
_ABORTED = struct.Struct(">qqq")


class Outcome(IntEnum):
    """What became of a read."""

    RECORDS = 0
    OUT_OF_RANGE = 1
    """The log does not hold the offset any more, or never did."""
    NOT_HERE = 2
    """The node has no copy, or not any more; ask another, or later."""


class Read(NamedTuple):
    """A node wants records from an offset on."""

    number: int
    """Of the question; the answer has the same."""
    topic_id: bytes
    partition: int
    offset: int
    bytes_max: int
    readers: int
    """How many wait for them there."""


class Aborted(NamedTuple):
    """A transaction without effect in what was read."""

    producer_id: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What a node has from an offset on, and from where to where its log goes."""

    number: int
    outcome: Outcome
    start_offset: int = 0
    end_offset: int = 0
    """Of what readers may see."""
    aborted: Sequence[Aborted] = ()
    records: Sequence[memoryview] = ()

    @property
    def next_offset(self) -> int:
        """Return the offset after the records; the end if there are none."""
        batches = (header for buffer in self.records[-1:] for _, header in walk(buffer))
        return max((header.next_offset for header in batches), default=self.end_offset)


def write_read(read: Read) -> bytes:
    """Write the notice of a read."""
    return _READ.pack(*read)


def read_read(body: memoryview) -> Read:
    """Return the read of a notice."""
    if len(body) != _READ.size:
        raise DecodeError(f"a read of {len(body)} bytes")
    return Read(*_READ.unpack(body))


def write_cancel(number: int) -> bytes:
    """Write the notice that nobody wants an answer any more."""
    return _CANCEL.pack(number)


def read_cancel(body: memoryview) -> int:
    """Return which read nobody wants to have answered any more."""
    if len(body) != _CANCEL.size:
        raise DecodeError(f"the end of a read of {len(body)} bytes")
    return int(_CANCEL.unpack(body)[0])


def write_answer(answer: Answer) -> list[bytes | memoryview]:
    """Write the notice of an answer, in pieces."""
    head = _ANSWER.pack(
        answer.number,
        answer.outcome,
        answer.start_offset,
        answer.end_offset,
        len(answer.aborted),
    )
    return [head, *(_ABORTED.pack(*one) for one in answer.aborted), *answer.records]


def read_answer(body: memoryview) -> Answer:
    """Return the answer of a notice; its records are a slice of it."""
    if len(body) < _ANSWER.size:
        raise DecodeError(f"an answer of {len(body)} bytes")
    number, outcome, start, end, count = _ANSWER.unpack_from(body)
    records_at = _ANSWER.size + count * _ABORTED.size
    if outcome not in _OUTCOMES or records_at > len(body):
        raise DecodeError(f"an answer of kind {outcome} with {count} transactions is cut off")
    aborted = [Aborted(*row) for row in _ABORTED.iter_unpack(body[_ANSWER.size : records_at])]
    records = (body[records_at:],) if records_at < len(body) else ()
    return Answer(number, Outcome(outcome), start, end, aborted, records)


_OUTCOMES = frozenset(Outcome)
