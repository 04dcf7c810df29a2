"""A shared cursor as fronts use it, on whichever node it is kept."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from chordmq.broker.audience import Reader
from chordmq.broker.cursors.cursor import Answer, Delivery
from chordmq.broker.cursors.records import CursorKey
from chordmq.broker.cursors.shared_cursor import Outcome
from chordmq.broker.partition import Partition


class GroupIndex(Protocol):
    """A group's place in one partition, which its consumers share."""

    key: CursorKey

    @property
    def partition(self) -> Partition:
        """Return the partition, whose records may be on another node."""
        ...

    @property
    def start(self) -> int:
        """Return the first offset that is not done, as far as is known here."""
        ...

    @property
    def lag(self) -> int:
        """Return how many offsets are not done, as far as is known here."""
        ...

    def take(self, holder: str, count_max: int, max_bytes: int) -> Delivery:
        """Give a consumer records that are here; it can be woken when more have come."""
        ...

    async def take_now(self, holder: str, count_max: int, max_bytes: int) -> Delivery:
        """Give a consumer records wherever they are, at least one if any is available."""
        ...

    def settle(
        self, holder: str, first: int, last: int, outcomes: Sequence[Outcome]
    ) -> asyncio.Future[None]:
        """Take a consumer's answer; the future is done when it is in the log.

        InvalidRecordState, if the consumer does not hold them all, is raised or comes with it.
        """
        ...

    def settle_all(self, holder: str, answers: Sequence[Answer]) -> asyncio.Future[None]:
        """Take several answers about offsets that do not overlap, all or none."""
        ...

    def leave(self, holder: str) -> None:
        """Give a consumer's records to others."""
        ...

    def wait(self, reader: Reader) -> None:
        """Have `reader` woken once when there may be something to take."""
        ...

    def forget(self, reader: Reader) -> None:
        """Do not wake `reader` any more."""
        ...
