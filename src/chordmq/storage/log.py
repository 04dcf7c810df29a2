"""One partition's log: ordered segments, append, read, truncate."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from chordmq.clock import Clock
from chordmq.errors import DiskFull, OffsetOutOfRange, StorageFailed
from chordmq.records.batch import BatchHeader
from chordmq.storage import compaction, epochs, files, retention, snapshots
from chordmq.storage.ahead import Ahead
from chordmq.storage.compaction import Compaction, IsAborted, Swap
from chordmq.storage.flush import Flush
from chordmq.storage.flushing import Flushing
from chordmq.storage.index import RELATIVE_OFFSET_MAX, Index
from chordmq.storage.metadata.segments import Checkpoint, SegmentCatalogue
from chordmq.storage.reader import Reader
from chordmq.storage.recovery import DELETED_SUFFIX, Recovery
from chordmq.storage.segment import Segment
from chordmq.storage.settings import LogSettings
from chordmq.storage.tail import Tail, TailBudget

if TYPE_CHECKING:
    from chordmq.storage.journal import Journal

__all__ = ["Flush", "Log", "LogSettings"]


class Log(Flushing):
    """One partition's records on disk; used from one thread, except `Flush.sync`."""

    def __init__(
        self,
        directory: Path,
        settings: LogSettings,
        clock: Clock,
        tail: TailBudget,
        catalogue: SegmentCatalogue,
        journal: "Journal | None" = None,
    ) -> None:
        self.directory = directory
        self.name = directory.name
        self.settings = settings
        self._clock = clock
        self._catalogue = catalogue
        self.journal = journal
        self._spare = tail.spare
        self._tail = Tail(tail)
        self._doomed: list[Path] = []
        self.fault = ""
        self._open()

    def _open(self) -> None:
        self._new_directory = self._new_names = not self.directory.exists()
        if self._new_directory:
            files.make_directory(self.directory.parent)
            self.directory.mkdir()
            self._catalogue.forget(self.name)
            self._registered = self._catalogue.save(self.name, self._no_checkpoint())
        entry = None if self._new_directory else self._catalogue.load(self.name)
        found = self.recovered = Recovery(
            self.directory, entry, self.settings.index_interval_bytes, self._clock.now_ms()
        ).run()
        self._segments = found.segments
        self._active = found.segments[-1]
        if entry is None or self._active.base_offset not in entry.segments:
            # It was never flushed: what a crash has left may have no name on the disk yet.
            self._new_names = self._new_directory = True
        self._epochs = found.epochs
        self._epochs_saved = epochs.is_saved(self.directory, self._epochs)
        self.end_offset = self._active.next_offset
        self.start_offset = self.cleaned_offset = self._segments[0].base_offset
        if entry is not None:
            start = max(entry.checkpoint.start_offset, self.start_offset)
            self.start_offset = min(start, self.end_offset)
            self.cleaned_offset = min(entry.checkpoint.cleaned_offset, self.end_offset)
        self.size = sum(segment.size for segment in self._segments)
        self.flushed_offset = self.end_offset
        self._bytes_since_checkpoint = found.bytes_scanned
        self._checkpoint = entry.checkpoint if entry else self._no_checkpoint()
        self._flushed_position = self._active.size
        ahead = Ahead(self._spare)
        self.reader = Reader(self.name, self._segments, self._epochs, self._tail, ahead)
        self._unflushed = [segment for segment in found.scanned if segment is not self._active]
        self._checkpoint_due = entry is None or bool(self._unflushed) or not self._epochs_saved
        if found.scanned:
            # What a crash left in the page cache must not count as flushed before it is.
            self.flushed_offset = -1
            self.flush()
            snapshots.cut(self.directory, self.end_offset)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Return the segments from the oldest to the active one."""
        return tuple(self._segments)

    @property
    def latest_epoch(self) -> int:
        """Return the leader epoch of the last batch, or -1 when there never was one."""
        return self._epochs.latest

    @property
    def corruptions(self) -> tuple[str, ...]:
        """Return the damage that readers and the scrub met: file, position and offset of each."""
        return tuple(self.reader.corruptions)

    def report(self, fault: Exception) -> None:
        """Take note of damage that was found outside of a read."""
        self.reader.report(fault)

    def check(self, segment: Segment) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        """Return an iterator that reads a sealed segment in any thread and raises at damage."""
        return segment.scan(epochs=self._epochs.copy())

    def append(
        self, pieces: Sequence[memoryview], headers: Sequence[BatchHeader], *, is_lent: bool = False
    ) -> None:
        """Write whole batches that were checked and given the next offsets of this log.

        The bytes stay in memory for readers, so the caller must not change them, unless they are
        only lent. On a full or failing disk nothing is appended, and the log can be used further.
        """
        size, last = sum(map(len, pieces)), headers[-1]
        assert headers[0].base_offset == self.end_offset, "batches must continue the log"
        if self.fault:
            raise StorageFailed(self.fault)
        self._make_room(size, last.next_offset)
        active, base_offset = self._active, self.end_offset
        try:
            active.append(pieces, headers, self.settings.index_interval_bytes)
        except OSError as error:
            self.fault = f"cannot undo a failed write of {active.path}: {error}"
            raise StorageFailed(self.fault) from error
        if last.leader_epoch != self._epochs.latest:
            self._note_epochs(headers)
        self.end_offset = active.next_offset
        self.size += size
        self._bytes_since_checkpoint += size
        self._tail.add(base_offset, self.end_offset, pieces, is_lent=is_lent)

    def _make_room(self, size: int, next_offset: int) -> None:
        """Begin a new segment if the active one is full or old."""
        active, now_ms = self._active, self._clock.now_ms()
        if not active.size:
            active.created_ms = now_ms
        elif (
            active.size + size > self.settings.segment_bytes
            or now_ms - active.created_ms >= self.settings.segment_ms
            or next_offset - active.base_offset > RELATIVE_OFFSET_MAX
        ):
            self._roll()

    def _roll(self) -> None:
        new = Segment.create(self.directory, self.end_offset, self._clock.now_ms())
        self._unflushed.append(self._active)
        self._segments.append(new)
        self._active = new
        self._flushed_position = 0
        self._new_names = self._checkpoint_due = True

    def _note_epochs(self, headers: Sequence[BatchHeader]) -> None:
        for header in headers:
            if header.leader_epoch > self._epochs.latest:
                self._epochs.begin(header.leader_epoch, header.base_offset)
        assert headers[-1].leader_epoch == self._epochs.latest, "leader epochs never go back"
        self._epochs_saved = False

    @property
    def memory_start(self) -> int:
        """Return the offset from which on memory has the log."""
        return self._tail.start

    def read(self, offset: int, max_bytes: int, *, limit: int | None = None) -> list[memoryview]:
        """Return whole batches from the one that contains `offset` on, at least one.

        Batches that start at or after `limit` are not returned; nothing is at the end of the log.
        Raises CorruptBatch when the disk gives back other bytes than were written.
        """
        if not self.start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRange(
                f"{self.name} has offsets {self.start_offset} to {self.end_offset}, not {offset}"
            )
        limit = self.end_offset if limit is None else min(limit, self.end_offset)
        if self._tail.start <= offset < limit:
            return self._tail.read(offset, max_bytes, limit)
        return self.reader.read(offset, max_bytes, limit)

    def scan(self, start: int) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Yield header and bytes of the batches that end after `start`, from the files."""
        return self.reader.scan(start)

    def batches(self, start: int) -> Iterator[BatchHeader]:
        """Yield the headers of the batches that end after `start`, from the files."""
        return (header for header, _ in self.reader.scan(start))

    def offset_for_time(self, timestamp_ms: int) -> tuple[int, int] | None:
        """Return (offset, timestamp) of the first record not earlier than the given time."""
        return self.reader.offset_for_time(timestamp_ms, self.start_offset)

    def latest_time(self) -> tuple[int, int]:
        """Return (offset, timestamp) of the latest record by time, or (-1, -1) if there is none."""
        return self.reader.latest_time()

    def epoch_end(self, leader_epoch: int) -> tuple[int, int]:
        """Return the largest epoch at or below the given one and where it ends, else (-1, -1)."""
        return self._epochs.end_of(leader_epoch, self.end_offset)

    def truncate(self, offset: int) -> None:
        """Remove the batches that end after `offset`; blocks, and is for followers only."""
        if offset >= self.end_offset:
            return
        self._cancel_flush()
        if self._owed_round:
            self._settle()
        number = max(self.reader.number_of(offset), 0)
        target, removed = self._segments[number], self._segments[number + 1 :]
        # Before bytes after the cut are written anew, nobody may vouch for the old ones.
        checkpoint = Checkpoint(
            start_offset=self.start_offset,
            flushed_segment=target.base_offset,
            flushed_position=0,
            flushed_offset=target.base_offset,
            cleaned_offset=min(self.cleaned_offset, target.base_offset),
            journal_round=self._next_round(),
        )
        self._catalogue.drop(self.name, [s.base_offset for s in self._segments[number:]])
        self._catalogue.save(self.name, checkpoint).result()
        self._checkpoint = checkpoint
        compaction.discard(self.directory)
        kept = Segment(self.directory, target.base_offset, target.created_ms)
        kept.open_for_append(Index())
        for _, header, _ in target.scan():
            if header.next_offset > offset:
                break
            kept.note(header, self.settings.index_interval_bytes)
        assert kept.fd is not None
        os.ftruncate(kept.fd, kept.size)
        target.rest()
        self._unflushed = [s for s in self._unflushed if s.base_offset < target.base_offset]
        self._remove(removed)
        self._segments[number:] = [kept]
        self._after_cut(kept)

    def restart(self, offset: int) -> None:
        """Drop everything and go on at `offset`; blocks, and is for followers only."""
        self._cancel_flush()
        checkpoint = replace(
            self._no_checkpoint(),
            start_offset=offset,
            flushed_segment=offset,
            flushed_offset=offset,
        )
        self._catalogue.drop(self.name, [segment.base_offset for segment in self._segments])
        self._catalogue.save(self.name, checkpoint).result()
        self._checkpoint = checkpoint
        compaction.discard(self.directory)
        self._remove(self._segments)
        self._unflushed = []
        self._segments[:] = [Segment.create(self.directory, offset, self._clock.now_ms())]
        self._epochs.cut(0)
        self.start_offset = self.cleaned_offset = self.flushed_offset = offset
        self._after_cut(self._segments[0])
        self.start_offset = offset

    def _after_cut(self, active: Segment) -> None:
        self._active = active
        self.end_offset = active.next_offset
        self.start_offset = min(self.start_offset, self.end_offset)
        self.flushed_offset = min(self.flushed_offset, self.end_offset)
        self.size = sum(segment.size for segment in self._segments)
        self._flushed_position = self._owed_round = 0
        self._epochs.cut(self.end_offset)
        self._epochs_saved = False
        self._checkpoint_due = True
        self._tail.clear()
        self.reader.forget_places()
        snapshots.cut(self.directory, self.end_offset)

    def delete_before(self, offset: int) -> "Future[None]":
        """Move the start of the log up to `offset`; durable once the future is done."""
        assert offset <= self.end_offset
        if offset > self.start_offset:
            self.start_offset = offset
            if offset == self.end_offset:
                self._roll_to_delete()
            self._drop_leading(self.reader.number_of(offset))
        return self._save_start()

    def _roll_to_delete(self) -> None:
        """Seal the active segment so that it can go; if there is no room for another, it stays."""
        with suppress(DiskFull):
            if self._active.size:
                self._roll()

    def _drop_leading(self, count: int) -> None:
        """Remove the oldest segments; readers keep the bytes they have."""
        removed = self._segments[:count]
        del self._segments[:count]
        self._unflushed = [segment for segment in self._unflushed if segment not in removed]
        self._remove(removed)
        self.start_offset = max(self.start_offset, self._segments[0].base_offset)
        self._epochs.forget_before(self._segments[0].base_offset)
        self.size = sum(segment.size for segment in self._segments)
        self._catalogue.drop(self.name, [segment.base_offset for segment in removed])

    def _remove(self, segments: list[Segment]) -> None:
        """Take files out of the log; the next flush removes them, off the event loop."""
        for segment in segments:
            segment.rest()
            for path in (segment.path, *segment.index_paths):
                doomed = path.with_name(path.name + DELETED_SUFFIX)
                if path.exists():
                    path.rename(doomed)
                    self._doomed.append(doomed)
        self._new_names |= bool(segments)
        self.reader.forget_places()

    def _save_start(self) -> "Future[None]":
        self._checkpoint = replace(self._checkpoint, start_offset=self.start_offset)
        return self._catalogue.save(self.name, self._checkpoint)

    def maintain(self, committed_offset: float = inf) -> None:
        """Apply retention to what is committed, free memory, let the next flush write a checkpoint.

        To be called now and then; a flush should follow, which also removes the deleted files.
        """
        settings = self.settings
        self.reader.ahead.expire()
        if settings.memory_retention_ms >= 0:
            self._tail.expire(settings.memory_retention_ms)
        end = min(self.flushed_offset, committed_offset)
        settled = [one for one in map(Segment.entry, self._segments) if one.next_offset <= end]
        count = retention.expired(settled, settings, self.size, self._clock.now_ms())
        if count == len(self._segments):
            self._roll_to_delete()
        count = min(count, len(self._segments) - 1)
        if count:
            self._drop_leading(count)
            self._save_start()
        if self._checkpoint.flushed_offset != self.end_offset:
            self._checkpoint_due = True

    def begin_compaction(
        self, stable_offset: int | None = None, is_aborted: IsAborted | None = None
    ) -> Compaction | None:
        """Return a pass over the oldest segments if one is worth its work, else None.

        It ends before `stable_offset`, from where on transactions are not decided. `next` of the
        pass runs in a thread; each swap that it returns is for `swap` here.
        """
        if not self._is_saved():
            return None
        end = self.end_offset if stable_offset is None else stable_offset
        resting = list(
            takewhile(
                lambda s: s not in self._unflushed and s.next_offset <= end, self._segments[:-1]
            )
        )
        facts = [segment.entry() for segment in resting]
        now_ms = self._clock.now_ms()
        count = retention.cleanable(facts, self.settings, self.cleaned_offset, now_ms)
        if not count:
            return None
        return Compaction(resting[:count], self.cleaned_offset, self.settings, now_ms, is_aborted)

    def swap(self, swap: Swap) -> None:
        """Put a compacted segment in the place of the old ones, unless those have gone."""
        number = self.reader.number_of(swap.new.base_offset)
        is_current = self._segments[number : number + len(swap.old)] == list(swap.old)
        if not is_current or not swap.path.exists():  # a cut has thrown it away
            swap.path.unlink(missing_ok=True)
            return
        self._remove(list(swap.old))
        swap.path.rename(swap.new.path)
        assert swap.new.index is not None
        swap.new.open_for_append(swap.new.index)
        self._segments[number : number + len(swap.old)] = [swap.new]
        self._unflushed.insert(0, swap.new)
        self.size = sum(segment.size for segment in self._segments)
        self._catalogue.drop(self.name, [segment.base_offset for segment in swap.old])
        self._checkpoint_due = True

    def finish_compaction(self, compaction: Compaction) -> None:
        """Take note how far the pass came."""
        self.cleaned_offset = max(self.cleaned_offset, compaction.newest.end_offset)
        self._checkpoint_due = True

    def write_snapshot(self, offset: int, data: bytes) -> None:
        """Store the producers' state before `offset`; blocks until it is on disk."""
        snapshots.write(self.directory, offset, data)

    def newest_snapshot(self) -> tuple[int, bytes] | None:
        """Return (offset, data) of the newest sound snapshot."""
        return snapshots.newest(self.directory, self.end_offset)

    def close(self) -> None:
        """Flush, and leave a checkpoint from which the next start reads nothing.

        The checkpoint is queued: closing the database afterwards writes it.
        """
        self.save()
        self._release()

    def save(self) -> None:
        """Flush, and write a checkpoint unless the last one says all; blocks.

        May run in any thread while nobody else uses the log.
        """
        self._cancel_flush()
        self._checkpoint_due |= self._checkpoint.flushed_offset != self.end_offset
        self.flush()

    def abandon(self) -> "Future[None]":
        """Let go of files that the caller is about to delete; nothing is flushed.

        When the future is done, another log may have the name.
        """
        self._cancel_flush()
        self._release()
        self._owed_round = 0
        return self._catalogue.forget(self.name)

    def _release(self) -> None:
        self._tail.clear()
        self.reader.forget_places()
        for segment in self._segments:
            segment.rest()
        self.fault = f"{self.name} is closed"
