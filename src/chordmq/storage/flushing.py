"""How far a log is on the disk, and what a flush has to bring there."""

import os
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING

from chordmq.errors import StorageFailed
from chordmq.storage.epochs import Epochs
from chordmq.storage.flush import CheckpointWork, Flush, Share
from chordmq.storage.metadata.segments import Checkpoint, SegmentCatalogue
from chordmq.storage.segment import Segment

if TYPE_CHECKING:
    from chordmq.storage.journal import Journal

CHECKPOINT_BYTES = 16 << 20
"""Recovery reads at most about this much of what was flushed."""


class Flushing:
    """The part of a log that flushes it: by a ticket, which is carried out in any thread."""

    directory: Path
    name: str
    fault: str
    start_offset: int
    end_offset: int
    flushed_offset: int
    cleaned_offset: int
    journal: "Journal | None" = None
    """Where small flushes may go, together with those of other logs."""
    _catalogue: SegmentCatalogue
    _checkpoint: Checkpoint
    _checkpoint_due: bool
    _bytes_since_checkpoint: int
    _segments: list[Segment]
    _active: Segment
    _unflushed: list[Segment]
    """Sealed segments that a flush has still to bring to the disk."""
    _flushed_position: int
    """How far the file of the active segment is on the disk, there or in the journal."""
    _epochs: Epochs
    _epochs_saved: bool
    _new_names: bool
    _new_directory: bool
    _doomed: list[Path]
    _flush: Flush | None = None
    _share: Share | None = None
    _registered: "Future[None] | None" = None
    _saved: "Future[None] | None" = None
    """The last checkpoint with a sealed segment, or the first one; if it failed, the next."""
    _owed_round: int = 0
    """The first round of the journal with what the log's own files may not have; 0 if none."""
    _owed_next: int = 0
    """What it becomes when the flush under way has ended."""
    _refused: str = ""
    """Why the disk refused a flush that was cancelled: a second sync is not to be believed."""

    @property
    def has_unflushed_segments(self) -> bool:
        """Return whether a sealed segment waits for a flush, which then lets go of its memory."""
        return bool(self._unflushed)

    def flush_size(self) -> int | None:
        """Return how many bytes a flush has to bring to the disk; None if they are not all.

        Names of files, other segments or a checkpoint are more than bytes. A log that the catalogue
        does not know yet has no use for the journal, nor one whose file may have lost its name.
        """
        if (
            (self._flush is not None and self._flush.new_names)
            or self._checkpoint_due
            or self._new_names
            or self._unflushed
            or self._doomed
            or self._registered is not None
            or self._bytes_since_checkpoint >= CHECKPOINT_BYTES
            or not self._is_saved()
        ):
            return None
        return self._active.size - self._flushed_position

    def owes(self, number: int) -> bool:
        """Return whether a round of the journal up to this one has what the files may not have."""
        return 0 < self._owed_round <= number

    def begin_share(self) -> Share | None:
        """Return a ticket for all that is not on disk yet, to be written to the journal.

        Only for logs with a `flush_size`; None if that is nothing. A flush to the log's own files
        may be under way.
        """
        assert self._share is None, "a round is under way"
        if self._active.size == self._flushed_position:
            return None
        share = Share(self.name, self._active, self._flushed_position)
        self._share = share
        return share

    def finish_share(self, share: Share, number: int) -> None:
        """Take note that a round of the journal has it; 0 if none has, and it is still to do."""
        if share.cancelled:
            return
        assert share is self._share
        self._share = None
        if number:
            self._flushed_to(share)
            self._owed_round = self._owed_round or number
            if self._flush is not None and number >= self._flush.next_round:
                self._owed_next = self._owed_next or number

    def begin_flush(self, *, is_whole: bool = False) -> Flush | None:
        """Return a ticket for all that is not on disk yet, or None; one at a time.

        `is_whole`: also if the journal has it all, but the log's own files may not.
        """
        assert self._flush is None, "a flush is under way"
        # With what the journal turns away from, so that no flush that is waited for has to.
        if self._bytes_since_checkpoint >= CHECKPOINT_BYTES // (2 if is_whole else 1):
            self._checkpoint_due = True
        if self.flushed_offset == self.end_offset and not (
            self._checkpoint_due
            or self._new_names
            or self._doomed
            or (is_whole and self._owed_round)
        ):
            return None
        segments = [*self._unflushed, self._active]
        flush = self._flush = Flush(
            directory=self.directory,
            end_offset=self.end_offset,
            fds=_copies([segment.fd for segment in segments if segment.fd is not None]),
            sealed=self._unflushed[:],
            new_names=self._new_names,
            new_directory=self._new_directory,
            registered=self._registered,
            checkpoint=self._checkpoint_work(segments) if self._checkpoint_due else None,
            doomed=self._doomed,
            active=self._active,
            end_position=self._active.size,
            next_round=self._next_round(),
        )
        self._new_names = self._new_directory = self._checkpoint_due = False
        self._doomed = []
        return flush

    def _checkpoint_work(self, segments: list[Segment]) -> CheckpointWork:
        self._bytes_since_checkpoint = 0
        unsaved_epochs = None if self._epochs_saved else self._epochs.dump()
        self._epochs_saved = True
        return CheckpointWork(
            epochs=unsaved_epochs,
            indexes=[
                (segment, segment.index.unsaved(), len(segment.index))
                for segment in segments
                if segment.index is not None
            ],
            entries=[segment.entry() for segment in segments],
            flushed_segment=self._active.base_offset,
            flushed_position=self._active.size,
        )

    def finish_flush(self, flush: Flush) -> None:
        """Take note that the ticket was synced: moves `flushed_offset`."""
        if flush.cancelled:
            return
        assert flush is self._flush
        self._flush = None
        self._flushed_to(flush)
        self._registered = None
        self._owed_round, self._owed_next = self._owed_next, 0
        work = flush.checkpoint
        if work is None:
            return
        if not flush.checkpointed:
            self._checkpoint_due, self._epochs_saved = True, False
            return
        for segment, _, entries in work.indexes:
            if segment.index is not None:
                segment.index.saved = entries
        for segment in flush.sealed:
            segment.rest()
        self._unflushed = [s for s in self._unflushed if s not in flush.sealed]
        self._checkpoint = Checkpoint(
            start_offset=self.start_offset,
            flushed_segment=work.flushed_segment,
            flushed_position=work.flushed_position,
            flushed_offset=flush.end_offset,
            cleaned_offset=self.cleaned_offset,
            journal_round=flush.next_round,
        )
        kept = [
            entry for entry in work.entries if entry.base_offset >= self._segments[0].base_offset
        ]
        saved = self._catalogue.save(self.name, self._checkpoint, kept)
        last = self._saved
        if flush.sealed or last is None or (last.done() and last.exception() is not None):
            self._saved = saved

    def _flushed_to(self, flush: Flush | Share) -> None:
        """Go on to where a ticket ended; a round may have been quicker than a flush before it."""
        self.flushed_offset = max(self.flushed_offset, flush.end_offset)
        if flush.active is self._active:
            self._flushed_position = max(self._flushed_position, flush.end_position)

    def _no_checkpoint(self) -> Checkpoint:
        """Return what is known of a log that begins."""
        return Checkpoint(
            start_offset=0,
            flushed_segment=0,
            flushed_position=0,
            flushed_offset=0,
            cleaned_offset=0,
            journal_round=self._next_round(),
        )

    def _next_round(self) -> int:
        """Return the first round of the journal that may have something of this log from now on."""
        return self.journal.next_round if self.journal is not None else 0

    def flush(self) -> None:
        """Bring everything to the log's own files, and block until it is there."""
        if self._refused:
            raise StorageFailed(self._refused)
        flush = self.begin_flush(is_whole=True)
        if flush is not None:
            flush.sync()
            self.finish_flush(flush)

    def _settle(self) -> None:
        """Bring what only the journal has to the log's files, because the journal is to forget."""
        try:
            self.flush()
        except StorageFailed as error:
            self.fault = str(error)  # what a second flush would say is not to be believed
            raise

    def _cancel_flush(self) -> None:
        """Wait for a flush under way, and have all that it was to do done by the next one."""
        flush, self._flush = self._flush, None
        share, self._share = self._share, None
        self._owed_next = 0
        if share is not None:
            share.cancel()
        if flush is not None:
            flush.cancel()
            self._refused = self._refused or flush.refused
            self._new_names = self._checkpoint_due = True
            self._new_directory |= flush.new_directory
            self._epochs_saved = False
            self._doomed += flush.doomed

    def _is_saved(self) -> bool:
        """Return whether the catalogue knows of the log, and of the last segment that was sealed.

        Until then the journal may, after a power cut, write to segments that are sealed by now.
        """
        saved = self._saved
        if saved is None or self.journal is None:
            return True
        return saved.done() and saved.exception() is None


def _copies(fds: list[int]) -> list[int]:
    """Return copies of descriptors: of all, or of none."""
    copies: list[int] = []
    try:
        for fd in fds:
            copies.append(os.dup(fd))  # noqa: PERF401 - those made so far are closed again
    except OSError:
        for copy in copies:
            os.close(copy)
        raise
    return copies
