"""Who leads a partition and where, as Produce and Fetch tell those who ask elsewhere (KIP-951)."""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from chordmq.records.varint import uvarint

_LEADER = struct.Struct(">iib")
_INT32 = struct.Struct(">i")
_NODES_TAG = 0


class Hint(NamedTuple):
    """The leader of a partition, and since which epoch."""

    leader: int
    epoch: int


class NodeAddress(NamedTuple):
    """Where clients reach a node."""

    node: int
    host: str
    port: int
    rack: str = ""


def leader_tag(tag: int, hint: Hint) -> bytes:
    """Write the tagged fields of a partition that has only a hint."""
    return uvarint(1) + uvarint(tag) + uvarint(_LEADER.size) + _LEADER.pack(*hint, 0)


def nodes_tag(nodes: Sequence[NodeAddress]) -> bytes:
    """Write the tagged fields of an answer that has only addresses."""
    rows = bytearray(uvarint(len(nodes) + 1))
    for node, host, port, rack in nodes:
        name = host.encode()
        rows += _INT32.pack(node) + uvarint(len(name) + 1) + name + _INT32.pack(port)
        text = rack.encode()
        rows += (uvarint(len(text) + 1) + text if rack else b"\0") + b"\0"
    return uvarint(1) + uvarint(_NODES_TAG) + uvarint(len(rows)) + bytes(rows)
