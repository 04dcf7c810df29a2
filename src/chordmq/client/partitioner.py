"""Chooses a record's partition: by key as Java's producer does, sticky without a key."""

import random
from collections.abc import Sequence

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Return Kafka's 32-bit murmur2 hash, unsigned."""
    length = len(data)
    result = _SEED ^ length
    whole = length & ~3
    for position in range(0, whole, 4):
        word = int.from_bytes(data[position : position + 4], "little") * _MULTIPLIER & _MASK
        word = (word ^ (word >> 24)) * _MULTIPLIER & _MASK
        result = (result * _MULTIPLIER & _MASK) ^ word
    if whole < length:
        result ^= int.from_bytes(data[whole:], "little")
        result = result * _MULTIPLIER & _MASK
    result ^= result >> 13
    result = result * _MULTIPLIER & _MASK
    return result ^ (result >> 15)


def partition_for_key(key: bytes, partitions: int) -> int:
    """Return the partition that Java's default partitioner gives the key."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


class StickyChoice:
    """Stays with one partition per topic until a batch is full, so that batches grow large."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._current: dict[str, int] = {}

    def choose(self, topic: str, available: Sequence[int]) -> int:
        """Return the topic's current partition, or a new one if it is not available."""
        current = self._current.get(topic)
        if current is None or current not in available:
            current = self._current[topic] = self._chance.choice(available)
        return current

    def move_on(self, topic: str, partition: int) -> None:
        """Give up the partition whose batch was just closed."""
        if self._current.get(topic) == partition:
            del self._current[topic]
