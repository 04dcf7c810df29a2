"""Batches of several clients that follow each other in a log and are written by one call."""

from collections.abc import Sequence

from chordmq.broker.producers import is_next
from chordmq.records.batch import BatchHeader, place
from chordmq.records.origin import NO_PRODUCER

JOINED_MAX = 16 * 1024
"""Bytes of the average batch of a run that is copied together; larger ones stay where they are."""
PIECES_MAX = 1024
"""Pieces of memory that the kernel writes by one call."""


class JointRun:
    """What is to be written; each batch has its offsets, and a number that its sender knows."""

    def __init__(self, end_offset: int, leader_epoch: int) -> None:
        self.end_offset = end_offset
        """Where the log will end."""
        self.numbers: list[int] = []
        self.headers: list[BatchHeader] = []
        self._batches: list[memoryview] = []
        self._newest: dict[int, BatchHeader] = {}
        """The last batch of each producer, which nobody else knows of yet."""
        self._leader_epoch = leader_epoch

    def knows(self, producer_id: int) -> bool:
        """Return whether a batch of the producer is to be written."""
        return producer_id in self._newest

    def takes(self, header: BatchHeader) -> bool:
        """Return whether a producer's batch is the one that follows its last one here."""
        before = self._newest.get(header.producer_id)
        return before is not None and is_next(before, header)

    def add(self, number: int, data: memoryview, header: BatchHeader) -> None:
        """Give a batch the next offsets."""
        header.base_offset, header.leader_epoch = self.end_offset, self._leader_epoch
        place(data, 0, self.end_offset, self._leader_epoch)
        self.end_offset += header.last_offset_delta + 1
        self.numbers.append(number)
        self.headers.append(header)
        self._batches.append(data)
        if header.producer_id > NO_PRODUCER:
            self._newest[header.producer_id] = header

    def pieces(self) -> tuple[Sequence[memoryview], bool]:
        """Return the bytes, and whether they are only lent: small batches are copied together."""
        batches, count = self._batches, len(self._batches)
        if count <= PIECES_MAX and sum(map(len, batches)) > JOINED_MAX * count:
            return batches, True
        return [memoryview(b"".join(batches))], False
