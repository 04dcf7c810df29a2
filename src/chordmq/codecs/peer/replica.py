"""What followers and leaders of partitions tell each other, many partitions in one notice.

A follower's notice is a row per partition; the leader answers each row when there is something to
say, and not necessarily together. Records travel as they lie in the log.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

from chordmq.dataclass import dataclass
from chordmq.errors import DecodeError

NO_EPOCH = -1

_FETCH = struct.Struct(">16siqiqi")
_ANSWER = struct.Struct(">16siqiBqqiqI")


class Place(NamedTuple):
    """A partition, as nodes name it."""

    topic_id: bytes
    partition: int


class Outcome(IntEnum):
    """What became of a fetch."""

    RECORDS = 0
    """Here is what follows, perhaps nothing yet."""
    DIVERGED = 1
    """The logs part before the fetched offset: cut yours, then ask again."""
    TRIMMED = 2
    """The leader no longer keeps what follows: begin anew at its first offset."""
    STALE = 3
    """The follower's leader epoch or broker epoch is older than what the leader knows."""
    NOT_YET = 4
    """The leader knows of no such epoch, leadership or replica, and may soon; ask again."""


@dataclass(frozen=True, slots=True)
class Fetch:
    """A follower asks for what follows its log, all of which is as safe as the topic demands."""

    id: int
    """Never used before by this broker, also not before it restarted."""
    leader_epoch: int
    offset: int
    last_epoch: int
    """The epoch of the follower's last record, by which the leader sees whether the logs part."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The leader's word on one fetch."""

    id: int
    leader_epoch: int
    outcome: Outcome
    high_watermark: int = 0
    start_offset: int = 0
    end_epoch: int = NO_EPOCH
    """If the logs part: the largest epoch not above the follower's last one that the leader has."""
    end_offset: int = 0
    """Where that epoch ends."""
    records: Sequence[memoryview] = ()


def write_fetches(rows: Iterable[tuple[Place, Fetch]]) -> bytes:
    """Write a notice of fetches."""
    return b"".join(
        _FETCH.pack(*place, row.id, row.leader_epoch, row.offset, row.last_epoch)
        for place, row in rows
    )


def read_fetches(body: memoryview) -> Iterator[tuple[Place, Fetch]]:
    """Yield the rows of a notice of fetches."""
    if len(body) % _FETCH.size:
        raise DecodeError(f"a notice of fetches of {len(body)} bytes")
    for topic_id, index, *row in _FETCH.iter_unpack(body):
        yield Place(topic_id, index), Fetch(*row)


def write_answers(rows: Iterable[tuple[Place, Answer]]) -> list[bytes | memoryview]:
    """Write a notice of answers, in pieces."""
    out: list[bytes | memoryview] = []
    for place, row in rows:
        out.append(
            _ANSWER.pack(
                *place,
                row.id,
                row.leader_epoch,
                row.outcome,
                row.high_watermark,
                row.start_offset,
                row.end_epoch,
                row.end_offset,
                sum(map(len, row.records)),
            )
        )
        out.extend(row.records)
    return out


def read_answers(body: memoryview) -> Iterator[tuple[Place, Answer]]:
    """Yield the rows of a notice of answers; their records are slices of it."""
    position = 0
    while position < len(body):
        if len(body) - position < _ANSWER.size:
            raise DecodeError("a notice of answers is cut off")
        (topic_id, index, number, epoch, outcome, watermark, start, end_epoch, end, size) = (
            _ANSWER.unpack_from(body, position)
        )
        position += _ANSWER.size
        if size > len(body) - position:
            raise DecodeError(f"{size} bytes of records announced, {len(body) - position} are left")
        if outcome not in _OUTCOMES:
            raise DecodeError(f"an answer of the unknown kind {outcome}")
        records = (body[position : position + size],) if size else ()
        position += size
        kind = Outcome(outcome)
        yield (
            Place(topic_id, index),
            Answer(number, epoch, kind, watermark, start, end_epoch, end, records),
        )


_OUTCOMES = frozenset(Outcome)
