"""Which messages of each partition are done, and how far the group's place may move (pure)."""

from chordmq.client.offsets import TopicPartition


class Progress:
    """Messages that were read and are not done, by partition.

    Messages may be done in any order. The place that may be committed is before the first that is
    not: a crash repeats what came after it and was done, and never skips one.
    """

    def __init__(self) -> None:
        self._open: dict[TopicPartition, dict[int, None]] = {}
        self._read: dict[TopicPartition, int] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def begin(self, place: TopicPartition, offset: int) -> None:
        """Take note of a message that was read; those of a partition come in order."""
        self._open.setdefault(place, {})[offset] = None
        self._read[place] = offset + 1
        self._count += 1

    def reach(self, place: TopicPartition, next_offset: int) -> None:
        """Take note that there is nothing more to read before an offset."""
        self._read[place] = next_offset

    def finish(self, place: TopicPartition, offset: int) -> None:
        """Take note that a message is done; one that is not known any more does not matter."""
        if self._open.get(place, {}).pop(offset, offset) is None:
            self._count -= 1

    def committable(self) -> dict[TopicPartition, int]:
        """Return the place of each partition before which everything is done."""
        return {
            place: next(iter(self._open.get(place, ())), read) for place, read in self._read.items()
        }

    def forget(self) -> None:
        """Begin anew: the partitions may be another's by now."""
        self._open.clear()
        self._read.clear()
        self._count = 0
