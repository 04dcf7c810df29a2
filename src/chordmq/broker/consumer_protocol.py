"""The bytes that consumers exchange through their group, as far as the broker looks into them."""

import struct

CONSUMER = "consumer"
"""The protocol type whose members' metadata starts with their topics."""

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """Return the topics a consumer subscribes to, or None when the bytes are not a subscription.

    Layout: version i16, count of topics i32, each topic i16 length and UTF-8; what follows (user
    data, owned partitions, …) differs by version and is not read.
    """
    try:
        (version,) = _INT16.unpack_from(metadata)
        (count,) = _INT32.unpack_from(metadata, 2)
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
