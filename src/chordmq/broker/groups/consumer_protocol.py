"""The bytes that classic consumers exchange through their group, as far as a broker reads them."""

import struct
from collections.abc import Iterable

from chordmq.codecs.kafka.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)
from chordmq.codecs.kafka.schema import decode, encode
from chordmq.dataclass import dataclass
from chordmq.errors import DecodeError

CONSUMER = "consumer"
"""The protocol type whose members' metadata starts with their topics."""
VERSION_MAX = ConsumerProtocolSubscription.versions[-1]

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")

NamedPlace = tuple[str, int]
"""A topic's name and the index of one of its partitions."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a classic consumer says when it joins."""

    topics: frozenset[str]
    owned: frozenset[NamedPlace] = frozenset()
    """What it keeps while it joins; an eager consumer keeps nothing."""
    rack_id: str | None = None
    version: int = 0


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """Return the topics a consumer subscribes to, or None when the bytes are not a subscription.

    Layout: version i16, count of topics i32, each topic i16 length and UTF-8; what follows (user
    data, owned partitions, …) differs by version and is not read.
    """
    try:
        (version,) = _INT16.unpack_from(metadata)
        (count,) = _INT32.unpack_from(metadata, _INT16.size)
        if version < 0 or count < 0 or count > len(metadata):
            return None
        position, topics = 6, []
        for _ in range(count):
            (length,) = _INT16.unpack_from(metadata, position)
            position += 2
            if length < 0 or position + length > len(metadata):
                return None
            topics.append(metadata[position : position + length].decode())
            position += length
    except (struct.error, UnicodeDecodeError):
        return None
    return frozenset(topics)


def read_subscription(metadata: bytes) -> Subscription | None:
    """Return what the bytes say, or None when they are not a subscription.

    A version that is not known yet is read as the newest that is: each only adds to the last.
    """
    try:
        version = min(_version(metadata), VERSION_MAX)
        read = decode(ConsumerProtocolSubscription, version, metadata, _INT16.size)
    except DecodeError:
        return None
    owned = frozenset((part.topic, i) for part in read.owned_partitions for i in part.partitions)
    return Subscription(frozenset(read.topics), owned, read.rack_id, version)


def read_assignment(data: bytes) -> frozenset[NamedPlace] | None:
    """Return the partitions that a leader gave a consumer, or None when the bytes are others."""
    if not data:
        return frozenset()
    try:
        read = decode(
            ConsumerProtocolAssignment, min(_version(data), VERSION_MAX), data, _INT16.size
        )
    except DecodeError:
        return None
    return frozenset((part.topic, i) for part in read.assigned_partitions for i in part.partitions)


def write_assignment(places: Iterable[NamedPlace], version: int) -> bytes:
    """Return the partitions as a consumer reads them that subscribed in this version."""
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(places):
        topics.setdefault(topic, []).append(index)
    parts = [
        ConsumerProtocolAssignmentTopicPartition(topic=topic, partitions=indexes)
        for topic, indexes in topics.items()
    ]
    body = encode(ConsumerProtocolAssignment(assigned_partitions=parts), version)
    return _INT16.pack(version) + body


def _version(data: bytes) -> int:
    if len(data) < _INT16.size:
        raise DecodeError("there is no version")
    return int(_INT16.unpack_from(data)[0])
