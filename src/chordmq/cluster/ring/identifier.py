"""Places on the ring: numbers of 64 bits, clockwise upwards, with zero after the greatest."""

import hashlib

BITS = 64
SIZE = 1 << BITS


def between(first: int, x: int, last: int) -> bool:
    """Return whether x lies clockwise after `first`, before `last`; all but one if those equal."""
    if first < last:
        return first < x < last
    return x > first or x < last


def owned(first: int, key: int, last: int) -> bool:
    """Return whether a key belongs to the member at `last` whose predecessor is at `first`."""
    return key == last or between(first, key, last)


def distance(first: int, last: int) -> int:
    """Return how far it is clockwise."""
    return (last - first) % SIZE


def after(x: int) -> int:
    """Return the next place clockwise."""
    return (x + 1) % SIZE


def place_of_broker(cluster: str, uuid: str, virtual: int = 0) -> int:
    """Return where a broker, or one of its virtual nodes, stands."""
    return _hashed(f"{cluster}/{uuid}/{virtual}".encode())


def place_of_partition(topic_id: bytes, index: int) -> int:
    """Return the place from which a partition's replicas are found."""
    return _hashed(topic_id + index.to_bytes(4, "big"))


def place_of_key(key: str) -> int:
    """Return the place of any name."""
    return _hashed(key.encode())


def _hashed(data: bytes) -> int:
    return int.from_bytes(hashlib.sha256(data).digest()[: BITS // 8], "big")
