"""The log of a partition that other nodes keep: empty, and read or written by nobody here."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from math import inf
from pathlib import Path

from chordmq.errors import NotLeader
from chordmq.records.batch import BatchHeader
from chordmq.storage.compaction import Compaction, IsAborted
from chordmq.storage.flush import Flush
from chordmq.storage.log import Log
from chordmq.storage.segment import Segment
from chordmq.storage.settings import LogSettings


class AbsentLog(Log):
    """Stands where a log would be; has no files."""

    def __init__(self, directory: Path, settings: LogSettings) -> None:
        self.directory = directory
        self.name = directory.name
        self.settings = settings
        self.start_offset = self.end_offset = self.flushed_offset = self.cleaned_offset = 0
        self.size = 0
        self.fault = ""

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Return no segment."""
        return ()

    @property
    def has_unflushed_segments(self) -> bool:
        """Return False."""
        return False

    @property
    def latest_epoch(self) -> int:
        """Return that nothing was ever written."""
        return -1

    @property
    def corruptions(self) -> tuple[str, ...]:
        """Return no damage."""
        return ()

    def append(
        self, pieces: Sequence[memoryview], headers: Sequence[BatchHeader], *, is_lent: bool = False
    ) -> None:
        """Refuse."""
        raise self._elsewhere()

    def read(self, offset: int, max_bytes: int, *, limit: int | None = None) -> list[memoryview]:
        """Refuse."""
        raise self._elsewhere()

    def scan(self, start: int) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Yield nothing."""
        return iter(())

    def offset_for_time(self, timestamp_ms: int) -> tuple[int, int] | None:
        """Refuse."""
        raise self._elsewhere()

    def latest_time(self) -> tuple[int, int]:
        """Refuse."""
        raise self._elsewhere()

    def epoch_end(self, leader_epoch: int) -> tuple[int, int]:
        """Refuse."""
        raise self._elsewhere()

    def flush_size(self) -> int | None:
        """Return that nothing has to be brought to the disk."""
        return 0

    def begin_flush(self, *, is_whole: bool = False) -> Flush | None:
        """Return that there is nothing to flush."""
        return None

    def delete_before(self, offset: int) -> "Future[None]":
        """Refuse."""
        raise self._elsewhere()

    def maintain(self, committed_offset: float = inf) -> None:
        """Do nothing."""

    def begin_compaction(
        self, stable_offset: int | None = None, is_aborted: IsAborted | None = None
    ) -> Compaction | None:
        """Return that there is nothing to compact."""
        return None

    def write_snapshot(self, offset: int, data: bytes) -> None:
        """Do nothing."""

    def newest_snapshot(self) -> tuple[int, bytes] | None:
        """Return that there is none."""
        return None

    def close(self) -> None:
        """Do nothing."""

    def save(self) -> None:
        """Do nothing."""

    def abandon(self) -> "Future[None]":
        """Do nothing."""
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def _elsewhere(self) -> NotLeader:
        return NotLeader(f"{self.name} is on other nodes")
