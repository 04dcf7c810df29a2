"""Produce, by hand because it is hot: requests are walked without copying their records."""

import struct
from collections.abc import Sequence

from chordmq.codecs.cursor import read_uvarint
from chordmq.codecs.kafka.leader_hints import Hint, NodeAddress, leader_tag, nodes_tag
from chordmq.dataclass import dataclass
from chordmq.errors import DecodeError
from chordmq.records.varint import uvarint

FLEXIBLE_SINCE = 9
HINTS_SINCE = 10
"""From this version on an answer can say who leads (KIP-951)."""
TOPIC_IDS_SINCE = 13
TOPIC_ID_SIZE = 16

_ACKS_TIMEOUT = struct.Struct(">hi")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INDEX_SIZE = struct.Struct(">ii")
_ANSWER_V3 = struct.Struct(">ihqq")
_ANSWER_V5 = struct.Struct(">ihqqq")


@dataclass(slots=True)
class PartitionData:
    """The batch that a producer sends to one partition."""

    topic: str
    topic_id: bytes
    index: int
    records: memoryview | None


@dataclass(slots=True)
class ProduceRequest:
    """Batches for several partitions, and how sure the producer wants to be."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    partitions: list[PartitionData]


@dataclass(slots=True)
class PartitionAnswer:
    """What became of one partition's batch."""

    topic: str
    topic_id: bytes
    index: int
    error_code: int = 0
    base_offset: int = -1
    append_time_ms: int = -1
    start_offset: int = -1
    message: str | None = None
    leader: Hint | None = None
    """Who leads the partition, if it is not the node that was asked."""


def read_request(frame: memoryview, position: int, version: int) -> ProduceRequest:
    """Read the body at `position`; the records stay slices of the frame."""
    try:
        if version >= FLEXIBLE_SINCE:
            return _read_flexible(frame, position, version)
        return _read_fixed(frame, position)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise DecodeError(f"Produce request is cut off or garbled: {error}") from error


def _read_fixed(frame: memoryview, position: int) -> ProduceRequest:
    transactional_id, position = _string(frame, position)
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(frame, position)
    topics, position = _count(frame, position + 6)
    partitions: list[PartitionData] = []
    for _ in range(topics):
        topic, position = _string(frame, position)
        rows, position = _count(frame, position)
        for _ in range(rows):
            index, size = _INDEX_SIZE.unpack_from(frame, position)
            position += 8
            records = None
            if size >= 0:
                records, position = _slice(frame, position, size)
            partitions.append(PartitionData(topic or "", b"", index, records))
    _ended(frame, position)
    return ProduceRequest(transactional_id, acks, timeout_ms, partitions)


def _read_flexible(frame: memoryview, position: int, version: int) -> ProduceRequest:
    transactional_id, position = _compact_string(frame, position)
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(frame, position)
    topics, position = read_uvarint(frame, position + 6)
    partitions: list[PartitionData] = []
    for _ in range(topics - 1):
        topic, topic_id = "", b""
        if version >= TOPIC_IDS_SINCE:
            view, position = _slice(frame, position, TOPIC_ID_SIZE)
            topic_id = bytes(view)
        else:
            name, position = _compact_string(frame, position)
            topic = name or ""
        rows, position = read_uvarint(frame, position)
        for _ in range(rows - 1):
            (index,) = _INT32.unpack_from(frame, position)
            size, position = read_uvarint(frame, position + 4)
            records = None
            if size:
                records, position = _slice(frame, position, size - 1)
            position = _skip_tags(frame, position)
            partitions.append(PartitionData(topic, topic_id, index, records))
        position = _skip_tags(frame, position)
    _ended(frame, _skip_tags(frame, position))
    return ProduceRequest(transactional_id, acks, timeout_ms, partitions)


def write_response(
    answers: list[PartitionAnswer], version: int, nodes: Sequence[NodeAddress] = ()
) -> bytearray:
    """Write the body of the response; answers of one topic stand together.

    `nodes` says where the leaders are whom answers name.
    """
    out = bytearray()
    groups = _by_topic(answers)
    if version < FLEXIBLE_SINCE:
        out += _INT32.pack(len(groups))
        for rows in groups:
            name = rows[0].topic.encode()
            out += _INT16.pack(len(name)) + name + _INT32.pack(len(rows))
            for row in rows:
                _write_fixed(out, row, version)
        out += _INT32.pack(0)  # throttle time
        return out
    out += uvarint(len(groups) + 1)
    for rows in groups:
        if version >= TOPIC_IDS_SINCE:
            out += rows[0].topic_id
        else:
            name = rows[0].topic.encode()
            out += uvarint(len(name) + 1) + name
        out += uvarint(len(rows) + 1)
        for row in rows:
            _write_flexible(out, row, version)
        out.append(0)
    out += b"\0\0\0\0"  # throttle time
    out += nodes_tag(nodes) if nodes and version >= HINTS_SINCE else b"\0"
    return out


def _write_fixed(out: bytearray, row: PartitionAnswer, version: int) -> None:
    if version < 5:
        out += _ANSWER_V3.pack(row.index, row.error_code, row.base_offset, row.append_time_ms)
        return
    out += _ANSWER_V5.pack(
        row.index, row.error_code, row.base_offset, row.append_time_ms, row.start_offset
    )
    if version >= 8:
        out += _INT32.pack(0)  # no errors of single records
        if row.message is None:
            out += b"\xff\xff"
        else:
            text = row.message.encode()
            out += _INT16.pack(len(text)) + text


def _write_flexible(out: bytearray, row: PartitionAnswer, version: int) -> None:
    out += _ANSWER_V5.pack(
        row.index, row.error_code, row.base_offset, row.append_time_ms, row.start_offset
    )
    out.append(1)  # no errors of single records
    if row.message is None:
        out.append(0)
    else:
        text = row.message.encode()
        out += uvarint(len(text) + 1) + text
    if row.leader is not None and version >= HINTS_SINCE:
        out += leader_tag(0, row.leader)
    else:
        out.append(0)  # no tags


def _by_topic(answers: list[PartitionAnswer]) -> list[list[PartitionAnswer]]:
    """Group neighbours of the same topic, in their order."""
    groups: list[list[PartitionAnswer]] = []
    for row in answers:
        if groups and (groups[-1][0].topic, groups[-1][0].topic_id) == (row.topic, row.topic_id):
            groups[-1].append(row)
        else:
            groups.append([row])
    return groups


def _slice(frame: memoryview, position: int, size: int) -> tuple[memoryview, int]:
    end = position + size
    if size < 0 or end > len(frame):
        raise DecodeError(f"{size} bytes announced, {len(frame) - position} are left")
    return frame[position:end], end


def _string(frame: memoryview, position: int) -> tuple[str | None, int]:
    (size,) = _INT16.unpack_from(frame, position)
    if size < 0:
        return None, position + 2
    view, position = _slice(frame, position + 2, size)
    return str(view, "utf-8"), position


def _compact_string(frame: memoryview, position: int) -> tuple[str | None, int]:
    size, position = read_uvarint(frame, position)
    if size == 0:
        return None, position
    view, position = _slice(frame, position, size - 1)
    return str(view, "utf-8"), position


def _count(frame: memoryview, position: int) -> tuple[int, int]:
    (count,) = _INT32.unpack_from(frame, position)
    if count > len(frame) - position:
        raise DecodeError(f"{count} elements announced, {len(frame) - position} bytes are left")
    return count, position + 4


def _skip_tags(frame: memoryview, position: int) -> int:
    count, position = read_uvarint(frame, position)
    for _ in range(count):
        _, position = read_uvarint(frame, position)
        size, position = read_uvarint(frame, position)
        _, position = _slice(frame, position, size)
    return position


def _ended(frame: memoryview, position: int) -> None:
    if position != len(frame):
        raise DecodeError(f"{len(frame) - position} bytes after the end of the request")
