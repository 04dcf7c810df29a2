"""After a crash: check the tail, cut torn writes, rebuild indexes.

What lies before the catalogue's checkpoint was synced before the checkpoint was written, so it is
trusted and not read. What lies after it is read batch by batch; the log ends before the first
batch that is cut off, fails its checksum or does not continue the offsets. Without a catalogue
everything is read.
"""

import os
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path

from chordmq.dataclass import dataclass
from chordmq.errors import CorruptBatch
from chordmq.logs import get_logger
from chordmq.records.batch import BatchHeader
from chordmq.storage import compaction, files
from chordmq.storage.epochs import BrokenEpochs, Epochs
from chordmq.storage.index import BrokenIndex, Index, Place
from chordmq.storage.metadata.segments import CatalogueEntry
from chordmq.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, Segment, path_of

LOST_SUFFIX = ".lost"
DELETED_SUFFIX = ".deleted"

log = get_logger(__name__)


@dataclass(slots=True)
class Recovered:
    """What recovery found; the last segment is open for appending."""

    segments: list[Segment] = field(default_factory=list)
    epochs: Epochs = field(default_factory=Epochs)
    scanned: list[Segment] = field(default_factory=list)
    """Segments that were read in part or whole, and may not be on disk yet."""
    epochs_rebuilt: bool = False
    bytes_scanned: int = 0
    bytes_cut: int = 0
    lost: list[Path] = field(default_factory=list)
    """Segments which do not continue the log, set aside under another name."""


class Recovery:
    """Opens the files of one log."""

    def __init__(
        self, directory: Path, entry: CatalogueEntry | None, index_interval: int, now_ms: int
    ) -> None:
        self._directory = directory
        self._entry = entry
        self._index_interval = index_interval
        self._now_ms = now_ms
        self._found = Recovered()
        self._has_unread = False

    def run(self) -> Recovered:
        """Return the log's segments, whole and indexed, with the last one open for appending."""
        found = self._found
        compaction.finish_swaps(self._directory)
        bases = self._tidy()
        known = self._load_epochs()
        for number, base in enumerate(bases):
            if self._continues(base):
                self._open(base, bases[number + 1 : number + 2])
            else:
                self._set_aside(base)
        found.epochs_rebuilt = not known and self._has_unread
        if found.epochs_rebuilt:
            self._rebuild_epochs()
        if found.segments:
            self._open_last()
        else:
            first = self._entry.checkpoint.flushed_offset if self._entry else 0
            found.segments.append(Segment.create(self._directory, first, self._now_ms))
        found.epochs.cut(found.segments[-1].next_offset)
        return found

    def _tidy(self) -> list[int]:
        """Remove leftovers, and return the base offsets of the segments."""
        names = {path.name for path in self._directory.iterdir()}
        for name in names:
            if name.endswith((DELETED_SUFFIX, files.PARTIAL_SUFFIX)):
                (self._directory / name).unlink()
        stems = {name.removesuffix(LOG_SUFFIX) for name in names if name.endswith(LOG_SUFFIX)}
        for name in names:
            if name.endswith((INDEX_SUFFIX, TIME_INDEX_SUFFIX)) and name[:20] not in stems:
                (self._directory / name).unlink()
        return sorted(int(stem) for stem in stems if stem.isdigit())

    def _load_epochs(self) -> bool:
        try:
            self._found.epochs = Epochs.load(self._directory)
        except BrokenEpochs:
            return False
        # Of what is read anew the batches themselves say the epoch.
        self._found.epochs.cut(self._entry.checkpoint.flushed_offset if self._entry else 0)
        return True

    def _rebuild_epochs(self) -> None:
        epochs = self._found.epochs = Epochs()
        for segment in self._found.segments:
            try:
                for _, header, _ in self._count(segment.scan()):
                    if header.leader_epoch > epochs.latest:
                        epochs.begin(header.leader_epoch, header.base_offset)
            except CorruptBatch as fault:
                log.error("corrupt batch", fault=str(fault))

    def _continues(self, base: int) -> bool:
        """Return whether a segment belongs to the log, after those before it were opened."""
        segments = self._found.segments
        if self._found.lost:
            return False
        if not segments or segments[-1].next_offset == base:
            return True
        if self._was_flushed(base) and segments[-1].next_offset < base:
            log.error("segments are missing", directory=str(self._directory), before=base)
            return True
        return False

    def _was_flushed(self, base: int) -> bool:
        """Return whether a segment was on disk as far as is known, so that it is never cut."""
        return self._entry is None or base < self._entry.checkpoint.flushed_segment

    def _set_aside(self, base: int) -> None:
        path = path_of(self._directory, base, LOG_SUFFIX)
        aside = path.with_name(path.name + LOST_SUFFIX)
        path.rename(aside)
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            path_of(self._directory, base, suffix).unlink(missing_ok=True)
        self._found.lost.append(aside)
        log.error("segment does not continue the log and is set aside", path=str(aside))

    def _open(self, base: int, following: list[int]) -> None:
        """Take one segment in: as the catalogue knows it, or by reading what is not known."""
        segment, size = self._known_part(base)
        self._found.segments.append(segment)
        self._has_unread |= segment.size > 0
        if segment.size == size:
            if following and not all(path.exists() for path in segment.index_paths):
                self._index_of(segment).unsaved().save(*segment.index_paths)
            return
        segment.open_for_append(self._index_of(segment))
        self._found.scanned.append(segment)
        self._scan(segment, size)
        if segment.size == size:
            return
        if following and self._was_flushed(following[0]):
            # A damaged segment in the middle of what was flushed: its sound part is served.
            segment.size, segment.next_offset = size, following[0]
            return
        assert segment.fd is not None
        os.ftruncate(segment.fd, segment.size)
        self._found.bytes_cut += size - segment.size
        log.warning("torn tail cut", path=str(segment.path), bytes=size - segment.size)

    def _known_part(self, base: int) -> tuple[Segment, int]:
        """Return the segment up to where the catalogue vouches for it, and the file's size."""
        size = path_of(self._directory, base, LOG_SUFFIX).stat().st_size
        entry = self._entry.segments.get(base) if self._entry else None
        if self._entry and entry and base <= self._entry.checkpoint.flushed_segment:
            whole = base < self._entry.checkpoint.flushed_segment
            if entry.size == size or (entry.size < size and not whole):
                return Segment.from_entry(self._directory, entry), size
        return Segment(self._directory, base, self._now_ms), size

    def _index_of(self, segment: Segment) -> Index:
        """Return the index of the known part, from its files or from the log."""
        try:
            return Index.load(*segment.index_paths, segment.size)
        except BrokenIndex:
            copy = Segment(self._directory, segment.base_offset, self._now_ms)
            copy.index = Index()
        try:
            for _, header, _ in self._count(segment.scan()):
                copy.note(header, self._index_interval)
        except CorruptBatch as fault:
            log.error("corrupt batch", fault=str(fault))
        return copy.index

    def _scan(self, segment: Segment, size: int) -> None:
        """Read what lies after the known part, as far as it is sound."""
        epochs = self._found.epochs
        place = Place(segment.next_offset - segment.base_offset, segment.size)
        try:
            for _, header, _ in self._count(segment.scan(place, size)):
                if header.leader_epoch > epochs.latest:
                    epochs.begin(header.leader_epoch, header.base_offset)
                elif header.leader_epoch != epochs.at(header.base_offset):
                    raise CorruptBatch(f"leader epoch {header.leader_epoch} is out of order")
                segment.note(header, self._index_interval)
        except CorruptBatch as fault:
            log.warning("log ends before a batch that is not whole", fault=str(fault))

    def _open_last(self) -> None:
        last = self._found.segments[-1]
        if last.fd is None:
            last.open_for_append(self._index_of(last))

    def _count(
        self, scan: Iterator[tuple[int, BatchHeader, memoryview]]
    ) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        for found in scan:
            self._found.bytes_scanned += found[1].size
            yield found
