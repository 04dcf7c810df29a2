"""Flow control between a sender and a slow receiver: credit, pause, and what gives way (pure)."""

from collections.abc import Sequence
from enum import StrEnum
from typing import TypeVar

from chordmq.dataclass import dataclass
from chordmq.errors import CommandQueueFull

Item = TypeVar("Item")


class SlowConsumer(StrEnum):
    """What happens when a receiver has no room for one more message."""

    REFUSE = "refuse"
    """The sender is told."""
    DROP_OLDEST = "drop_oldest"
    """The message that has waited longest is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """How many messages a receiver may have under way, and how many may wait for it."""

    credit: int = 1
    waiting_max: int = 1_000
    policy: SlowConsumer = SlowConsumer.REFUSE

    def next(self, waiting: Sequence[Item], under_way: int, *, is_paused: bool) -> Sequence[Item]:
        """Return which of those that wait are sent now: in their order, as far as credit goes."""
        if is_paused:
            return ()
        return waiting[: max(0, self.credit - under_way)]

    def giving_way(self, waiting: Sequence[Item]) -> Sequence[Item]:
        """Return which of those that wait make room for one more; raise CommandQueueFull."""
        excess = len(waiting) + 1 - self.waiting_max
        if excess <= 0:
            return ()
        if self.policy is SlowConsumer.REFUSE:
            raise CommandQueueFull(f"{len(waiting)} messages wait, which is the limit")
        return waiting[:excess]
