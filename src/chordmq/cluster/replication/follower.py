"""A partition as one of its followers sees it: one fetch at a time, and what its answer means.

Pure: the caller sends fetches, brings answers, and does to the log what `on_answer` says.
"""

from collections.abc import Iterator, Sequence

from chordmq.cluster.replication.replica_log import ReplicaLog
from chordmq.codecs.peer.replica import Answer, Fetch, Outcome
from chordmq.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Append:
    """Write these batches as they are to the end of the log."""

    records: Sequence[memoryview]


@dataclass(frozen=True, slots=True)
class Cut:
    """Remove what lies at or after the offset: the leader never had it."""

    offset: int


@dataclass(frozen=True, slots=True)
class Restart:
    """Drop the whole log and begin at the offset: the leader keeps nothing before it."""

    offset: int


@dataclass(frozen=True, slots=True)
class Again:
    """Ask again, after a while: the leader cannot answer yet, or one of us is behind the times."""


Step = Append | Cut | Restart | Again


class Follower:
    """A follower of one partition, for one leader epoch."""

    def __init__(
        self, leader: int, epoch: int, log: ReplicaLog, high_watermark: int, ids: Iterator[int]
    ) -> None:
        self.leader = leader
        self.epoch = epoch
        self.high_watermark = high_watermark
        self._log = log
        self._ids = ids
        self._open: int | None = None
        """The id of the one fetch whose answer counts."""

    def fetch(self, safe_offset: int) -> Fetch | None:
        """Return the next fetch, or None while one is open or the last records are not safe.

        To fetch is to vouch: the leader counts everything before the offset as kept here.
        """
        if self._open is not None or safe_offset < self._log.end_offset:
            return None
        self._open = next(self._ids)
        return Fetch(self._open, self.epoch, self._log.end_offset, self._log.latest_epoch)

    def on_lost(self) -> None:
        """Take note that the link is gone; whatever comes in answer to the open fetch is void."""
        self._open = None

    def on_answer(self, source: int, answer: Answer) -> Step | None:
        """Return what to do to the log; None if the answer does not count."""
        if not self._is_expected(source, answer):
            return None
        self._open = None
        if answer.outcome is Outcome.RECORDS:
            return Append(answer.records)
        if answer.outcome is Outcome.DIVERGED:
            return Cut(self._parting(answer))
        if answer.outcome is Outcome.TRIMMED:
            return Restart(answer.start_offset)
        return Again()

    def on_committed(self, answer: Answer) -> None:
        """Take over the leader's high watermark, once what came with it is in the log."""
        self.high_watermark = max(
            self.high_watermark, min(answer.high_watermark, self._log.end_offset)
        )

    def on_cut(self) -> None:
        """Take note that the log was cut."""
        self.high_watermark = min(self.high_watermark, self._log.end_offset)

    def _is_expected(self, source: int, answer: Answer) -> bool:
        return (
            source == self.leader and answer.leader_epoch == self.epoch and answer.id == self._open
        )

    def _parting(self, answer: Answer) -> int:
        """Return where both logs end the last epoch that they share."""
        _, mine = self._log.epoch_end(answer.end_epoch)
        return max(0, min(answer.end_offset, mine, self._log.end_offset))
