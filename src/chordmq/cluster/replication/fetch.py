"""What followers and leaders of a partition tell each other, and what they ask of a log."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

NO_EPOCH = -1


class ReplicaLog(Protocol):
    """A partition's log, as far as replication decides over it."""

    @property
    def start_offset(self) -> int:
        """Return the first offset that is kept."""
        ...

    @property
    def end_offset(self) -> int:
        """Return the offset that the next record gets."""
        ...

    @property
    def latest_epoch(self) -> int:
        """Return the leader epoch of the last record, or -1 when there never was one."""
        ...

    def epoch_end(self, leader_epoch: int) -> tuple[int, int]:
        """Return the largest epoch at or below the given one and where it ends, else (-1, -1)."""
        ...


class Outcome(IntEnum):
    """What became of a fetch."""

    RECORDS = 0
    """Here is what follows, perhaps nothing yet."""
    DIVERGED = 1
    """The logs part before the fetched offset: cut yours, then ask again."""
    TRIMMED = 2
    """The leader no longer keeps what follows: begin anew at its first offset."""
    STALE = 3
    """The follower's leader epoch or broker epoch is older than what the leader knows."""
    NOT_YET = 4
    """The leader knows of no such epoch, leadership or replica, and may soon; ask again."""


@dataclass(frozen=True, slots=True)
class Fetch:
    """A follower asks for what follows its log, all of which is as safe as the topic demands."""

    id: int
    """Never used before by this broker, also not before it restarted."""
    leader_epoch: int
    offset: int
    last_epoch: int
    """The epoch of the follower's last record, by which the leader sees whether the logs part."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The leader's word on one fetch."""

    id: int
    leader_epoch: int
    outcome: Outcome
    high_watermark: int = 0
    start_offset: int = 0
    end_epoch: int = NO_EPOCH
    """If the logs part: the largest epoch not above the follower's last one that the leader has."""
    end_offset: int = 0
    """Where that epoch ends."""
    records: Sequence[memoryview] = ()
