"""What replication asks of a partition's log."""

from typing import Protocol


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
