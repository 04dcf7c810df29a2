"""Writes that wait to go into a coordinator's log: which go together, and which fail together."""

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from chordmq.broker.producers import Incarnation
from chordmq.errors import ChordMQError
from chordmq.records.marker import Marker

JOINED_RECORDS_MAX = 10_000

Item = TypeVar("Item")
Done = Callable[[ChordMQError | None], None]
"""Told when records are in the log (None), or why they are not."""


class Write(NamedTuple, Generic[Item]):
    """What one name wants in the log, all or none."""

    name: str
    records: Sequence[Item]
    done: Done
    producer: Incarnation | None = None
    marker: Marker | None = None
    epoch: int | None = None
    """The leader epoch whose log it was decided on; it may go into no other. None: into any."""

    @property
    def is_alone(self) -> bool:
        """Return whether this needs a batch of its own."""
        return self.producer is not None or self.marker is not None


class WriteQueue(Generic[Item]):
    """The writes of one partition, in the order in which they were asked for."""

    def __init__(self) -> None:
        self._writes: list[Write[Item]] = []

    def add(self, write: Write[Item]) -> None:
        """Put a write behind the others."""
        self._writes.append(write)

    def take(self) -> list[Write[Item]]:
        """Take out what goes into the next batch; nothing if none waits."""
        count = self._joined_count()
        taken, self._writes = self._writes[:count], self._writes[count:]
        return taken

    def take_behind(self, failed: Sequence[Write[Item]]) -> list[Write[Item]]:
        """Take out what was asked for in the belief that the failed writes are in the log."""
        names = {write.name for write in failed if write.name}
        taken = [write for write in self._writes if write.name in names]
        self._writes = [write for write in self._writes if write.name not in names]
        return taken

    def take_all(self) -> list[Write[Item]]:
        """Take out everything."""
        taken, self._writes = self._writes, []
        return taken

    def _joined_count(self) -> int:
        """Return how many of the first writes go into one batch."""
        total = 0
        for count, write in enumerate(self._writes):
            total += len(write.records)
            is_other = write.is_alone or write.epoch != self._writes[0].epoch
            if count and (is_other or total > JOINED_RECORDS_MAX):
                return count
            if write.is_alone:
                return 1
        return len(self._writes)


def end(writes: Sequence[Write[Item]], error: ChordMQError | None) -> None:
    """Tell those who asked for the writes what became of them."""
    for write in writes:
        write.done(error)
