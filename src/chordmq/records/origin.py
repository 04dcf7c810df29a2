"""Where a copied batch was first written: kept in header fields that plain copies have no use for.

A batch that one cluster copies from another keeps its records, times and compression. In place of a
producer it carries its origin: the producer id (below -1, which clients take for none) stands for
the cluster and topic, 40 and 22 bits of their hashes; epoch and sequence are its first offset.
Batches pass on from cluster to cluster with their origin, so each record has one name everywhere.
"""

import hashlib
import struct

from chordmq.records.batch import CRC_START, TRANSACTIONAL, BatchHeader
from chordmq.records.checksum import crc32c

NO_PRODUCER = -1
OFFSET_BITS = 48
"""Of an offset at its origin: at a million records a second, enough for nine years."""

_TOPIC_BITS = 22
_CLUSTER_BYTES = 5
_SEQUENCE_BITS = 32
_ATTRIBUTES = struct.Struct(">h")
_PRODUCER = struct.Struct(">qHI")
_PRODUCER_START = 43
_CRC = struct.Struct(">I")


def origin_id(cluster_id: str, topic_id: str) -> int:
    """Return the number for a cluster's topic; one that is made anew is another origin."""
    topic = int.from_bytes(_digest(topic_id, 4), "big") >> (32 - _TOPIC_BITS)
    return NO_PRODUCER - 1 - (cluster_number(cluster_id) << _TOPIC_BITS | topic)


def cluster_number(cluster_id: str) -> int:
    """Return the number for a cluster."""
    return int.from_bytes(_digest(cluster_id, _CLUSTER_BYTES), "big")


def cluster_of(origin: int) -> int:
    """Return the number of the cluster that an origin lies in."""
    return (NO_PRODUCER - 1 - origin) >> _TOPIC_BITS


def is_copy(header: BatchHeader) -> bool:
    """Return whether the batch was first written elsewhere."""
    return header.producer_id < NO_PRODUCER


def origin_offset(header: BatchHeader) -> int:
    """Return the offset that a copied batch begins with at its origin."""
    high = (header.producer_epoch & 0xFFFF) << _SEQUENCE_BITS
    return high | header.base_sequence & 0xFFFFFFFF


def mark(batch: memoryview, attributes: int, origin: int, offset: int) -> None:
    """Make a batch a copy that says where it comes from; whoever calls has checked the batch."""
    assert origin < NO_PRODUCER, "an origin"
    assert offset < 1 << OFFSET_BITS, "nine years of records"
    _ATTRIBUTES.pack_into(batch, CRC_START, attributes & ~TRANSACTIONAL)
    fields = origin, offset >> _SEQUENCE_BITS, offset & 0xFFFFFFFF
    _PRODUCER.pack_into(batch, _PRODUCER_START, *fields)
    _CRC.pack_into(batch, CRC_START - _CRC.size, crc32c(batch[CRC_START:]))


def _digest(text: str, size: int) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=size).digest()
