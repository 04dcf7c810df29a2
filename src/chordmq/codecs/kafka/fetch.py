"""The Fetch response, by hand because it is hot: records pass through as they lie in the log."""

import struct
from collections.abc import Sequence
from dataclasses import field

from chordmq.codecs.kafka.leader_hints import Hint, NodeAddress, leader_tag, nodes_tag
from chordmq.dataclass import dataclass
from chordmq.records.varint import uvarint

FLEXIBLE_SINCE = 12
TOPIC_IDS_SINCE = 13
NODES_SINCE = 16
"""From this version on an answer can say where the leaders are (KIP-951)."""
LEADER_TAG = 1
NO_REPLICA = -1

Buffer = bytes | bytearray | memoryview

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_TOP = struct.Struct(">ihi")
_ROW_V4 = struct.Struct(">ihqq")
_ROW_V5 = struct.Struct(">ihqqq")
_ABORTED = struct.Struct(">qq")


@dataclass(slots=True)
class PartitionRecords:
    """The answer for one partition: its batches and how far the log goes."""

    index: int
    error_code: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    start_offset: int = -1
    buffers: list[memoryview] = field(default_factory=list)
    aborted: Sequence[tuple[int, int]] = ()
    """(producer id, first offset) of each aborted transaction in the range."""
    preferred_replica: int = NO_REPLICA
    """Where the client should read instead (KIP-392)."""
    leader: Hint | None = None
    """Who leads the partition, if it is not the node that was asked."""


@dataclass(slots=True)
class TopicRecords:
    """The answers for the partitions of one topic."""

    topic: str
    topic_id: bytes
    partitions: list[PartitionRecords]


def write_response(
    topics: Sequence[TopicRecords],
    version: int,
    error_code: int = 0,
    session_id: int = 0,
    nodes: Sequence[NodeAddress] = (),
) -> list[Buffer]:
    """Write the body of the response as buffers to be sent one after the other.

    `nodes` says where the leaders are whom answers name.
    """
    out: list[Buffer] = []
    flexible = version >= FLEXIBLE_SINCE
    head = bytearray(_TOP.pack(0, error_code, session_id) if version >= 7 else _INT32.pack(0))
    head += uvarint(len(topics) + 1) if flexible else _INT32.pack(len(topics))
    for topic in topics:
        _write_name(head, topic, version)
        count = len(topic.partitions)
        head += uvarint(count + 1) if flexible else _INT32.pack(count)
        for row in topic.partitions:
            size = sum(len(buffer) for buffer in row.buffers)
            if flexible:
                _write_flexible(head, row, size)
            else:
                _write_fixed(head, row, size, version)
            if size:
                out.append(head)
                out.extend(row.buffers)
                head = bytearray()
            if flexible:
                head += b"\0" if row.leader is None else leader_tag(LEADER_TAG, row.leader)
        if flexible:
            head.append(0)
    if flexible:
        head += nodes_tag(nodes) if nodes and version >= NODES_SINCE else b"\0"
    out.append(head)
    return out


def _write_name(head: bytearray, topic: TopicRecords, version: int) -> None:
    if version >= TOPIC_IDS_SINCE:
        head += topic.topic_id
        return
    name = topic.topic.encode()
    head += uvarint(len(name) + 1) if version >= FLEXIBLE_SINCE else _INT16.pack(len(name))
    head += name


def _write_flexible(head: bytearray, row: PartitionRecords, size: int) -> None:
    head += _ROW_V5.pack(
        row.index, row.error_code, row.high_watermark, row.last_stable_offset, row.start_offset
    )
    head += uvarint(len(row.aborted) + 1)
    for transaction in row.aborted:
        head += _ABORTED.pack(*transaction) + b"\0"
    head += _INT32.pack(row.preferred_replica)
    head += uvarint(size + 1)


def _write_fixed(head: bytearray, row: PartitionRecords, size: int, version: int) -> None:
    if version >= 5:
        head += _ROW_V5.pack(
            row.index, row.error_code, row.high_watermark, row.last_stable_offset, row.start_offset
        )
    else:
        head += _ROW_V4.pack(row.index, row.error_code, row.high_watermark, row.last_stable_offset)
    head += _INT32.pack(len(row.aborted))
    for transaction in row.aborted:
        head += _ABORTED.pack(*transaction)
    if version >= 11:
        head += _INT32.pack(row.preferred_replica)
    head += _INT32.pack(size)
