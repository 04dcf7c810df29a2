"""A flush ticket: what has to reach the disk, carried out in a thread while appends go on."""

import os
from collections.abc import Sequence
from concurrent.futures import Future, wait
from dataclasses import field
from pathlib import Path
from threading import Lock

from chordmq.dataclass import dataclass
from chordmq.errors import StorageFailed
from chordmq.logs import get_logger
from chordmq.storage import epochs, files
from chordmq.storage.index import IndexWrite
from chordmq.storage.metadata.segments import SegmentEntry
from chordmq.storage.segment import Segment

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointWork:
    """What must be on disk, besides the log itself, before the catalogue may say how far it is."""

    indexes: Sequence[tuple[Segment, IndexWrite, int]]
    """Segment, entries to write, and how many entries it then has in its files."""
    epochs: bytes | None
    """The content of the leader-epoch checkpoint, if it changed."""
    entries: Sequence[SegmentEntry]
    flushed_segment: int
    flushed_position: int


class Share:
    """A log's part of a round of the journal: bytes at the end of its active segment."""

    __slots__ = ("active", "cancelled", "data", "end_offset", "end_position", "name", "position")

    def __init__(self, name: str, active: Segment, position: int) -> None:
        assert active.fd is not None
        self.name = name
        self.active = active
        self.position = position
        self.end_position = active.size
        self.end_offset = active.next_offset
        self.cancelled = False
        try:
            self.data = os.pread(active.fd, active.size - position, position)
        except OSError as error:
            raise StorageFailed(f"cannot read {active.path}: {error}") from error
        if len(self.data) < active.size - position:
            raise StorageFailed(f"{active.path} has lost what was just written to it")

    def cancel(self) -> None:
        """Make the share worthless; its round may be written all the same, and is then void."""
        self.cancelled = True


@dataclass(slots=True, kw_only=True, eq=False)
class Flush:
    """Syncs one log up to `end_offset`; made and finished in the loop, synced in any thread."""

    directory: Path
    end_offset: int
    fds: list[int]
    """Copies of the descriptors, so that the log may close its own; closed by `sync`."""
    sealed: list[Segment]
    new_names: bool
    new_directory: bool
    registered: "Future[None] | None"
    """Ends when the catalogue knows a new log; a log that it does not know was never flushed."""
    checkpoint: CheckpointWork | None
    doomed: list[Path]
    active: Segment
    end_position: int
    """How far the file of the active segment is on the disk then."""
    next_round: int
    """The first round of the journal that may have something which this does not bring there."""
    checkpointed: bool = False
    cancelled: bool = False
    refused: str = ""
    """Why the disk did not take it."""
    _lock: Lock = field(default_factory=Lock)

    def sync(self) -> None:
        """Block until the disk has it all; a failure is final and must not be retried.

        The kernel forgets pages that it could not write: a second fsync succeeds without them.
        """
        with self._lock:
            try:
                if not self.cancelled:
                    self._sync()
            except OSError as error:
                self.refused = f"cannot sync {self.directory}: {error}"
                raise StorageFailed(self.refused) from error
            finally:
                while self.fds:
                    os.close(self.fds.pop())

    def cancel(self) -> None:
        """Make the ticket worthless; waits if it is being carried out."""
        self.cancelled = True
        with self._lock:
            while self.fds:
                os.close(self.fds.pop())

    def _sync(self) -> None:
        for fd in self.fds:
            os.fdatasync(fd)
        if self.registered is not None:
            wait([self.registered])
        if self.new_names:
            files.sync(self.directory)
        if self.new_directory:
            files.sync(self.directory.parent)
        try:
            if self.checkpoint is not None:
                self._prepare_checkpoint(self.checkpoint)
            for path in self.doomed:
                path.unlink(missing_ok=True)
        except OSError as error:
            # The log itself is safe, and all this can be made from it; the next flush tries again.
            log.warning("cannot tidy up", directory=str(self.directory), error=str(error))

    def _prepare_checkpoint(self, work: CheckpointWork) -> None:
        if work.epochs is not None:
            epochs.save(self.directory, work.epochs)
        for segment, write, _ in work.indexes:
            write.save(*segment.index_paths)
        self.checkpointed = True
