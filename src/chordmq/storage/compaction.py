"""Compaction: rewrites sealed segments with only the newest record of each key.

Offsets stay. A removed batch leaves its span to a batch without records, so that the offsets of a
segment have no holes. A tombstone (null value) stays until `delete_retention_ms` after the first
compaction that met it; that time is written into its batch as Kafka does (KIP-534: attribute bit 6,
the time in place of the base timestamp). A producer's last batch stays, if need be without records,
for its sequence number. A pass ends before the first transaction that is not decided. The records
of aborted ones go, and a marker goes like a tombstone once its transaction has no records left.

A group of neighbouring segments becomes one, in steps that a crash may part anywhere:

    1. the kept batches are written to `<base>.cleaned` and synced
    2. it is renamed to `<base>.<next offset>.swap` and the directory synced: no way back
    3. the group's old files are removed
    4. the swap file is renamed to `<base>.log`

Opening a log removes `.cleaned` files and carries out steps 3 and 4 for `.swap` files.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from chordmq.dataclass import dataclass
from chordmq.records.batch import COMPRESSION_MASK, BatchHeader, read_header
from chordmq.records.record import Record, build_compacted, read_records
from chordmq.storage import files
from chordmq.storage.index import RELATIVE_OFFSET_MAX, Index
from chordmq.storage.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    NO_TIMESTAMP,
    TIME_INDEX_SUFFIX,
    Segment,
    path_of,
)
from chordmq.storage.settings import LogSettings

CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
KEYS_MAX = 500_000
"""Keys that one pass remembers, about 100 MB; what it does not reach is left to the next pass."""

IsAborted = Callable[[BatchHeader], bool]
"""Says whether a batch belongs to a transaction that was aborted; called in a thread."""

_HAS_HORIZON = 0x40
_KEY_BYTES_MAX = 32
_NO_PRODUCER = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Swap:
    """One segment, ready on disk, and those which it replaces."""

    path: Path
    old: Sequence[Segment]
    new: Segment


class Newest:
    """The last offset of each key, and of each producer's last batch, in a range of offsets."""

    def __init__(self, keys_max: int = KEYS_MAX) -> None:
        self.is_aborted: IsAborted = _never
        self.end_offset = -1
        """Where the range ends, which is where the memory for keys ran out."""
        self._keys_max = keys_max
        self._keys: dict[bytes, int] = {}
        self._batches: dict[int, int] = {}

    def learn(self, segment: Segment, start: int) -> bool:
        """Take in a segment's batches from `start` on; return False when there is no more room."""
        for _, header, batch in segment.scan():
            if header.producer_id != _NO_PRODUCER:
                self._batches[header.producer_id] = header.base_offset
            if header.base_offset >= start and not (header.is_control or self.is_aborted(header)):
                for record in read_records(batch):
                    if record.key is not None:
                        self._keys[_fingerprint(record.key)] = record.offset
            self.end_offset = header.next_offset
            if len(self._keys) >= self._keys_max:
                return False
        return True

    def keeps(self, record: Record) -> bool:
        """Return whether no later record of the range has this one's key."""
        return (
            record.key is not None and self._keys.get(_fingerprint(record.key), -1) <= record.offset
        )

    def ends_with(self, header: BatchHeader) -> bool:
        """Return whether this is the last batch of its producer."""
        return self._batches.get(header.producer_id) == header.base_offset


class Compaction:
    """One pass over the oldest segments of a log; runs in a thread, one group at a time."""

    def __init__(
        self,
        segments: Sequence[Segment],
        dirty_from: int,
        settings: LogSettings,
        now_ms: int,
        is_aborted: IsAborted | None,
    ) -> None:
        self._segments = segments
        self._dirty_from = dirty_from
        self._settings = settings
        self._now_ms = now_ms
        self._swaps: Iterator[Swap] | None = None
        self._with_records: set[int] = set()
        self.newest = Newest()
        if is_aborted is not None:
            self.newest.is_aborted = is_aborted

    def next(self) -> Swap | None:
        """Write the next group of segments and return it, or None when all is done."""
        if self._swaps is None:
            self._swaps = self._run()
        return next(self._swaps, None)

    def _run(self) -> Iterator[Swap]:
        for segment in self._segments:
            if segment.next_offset > self._dirty_from and not self.newest.learn(
                segment, self._dirty_from
            ):
                break
        reached = [s for s in self._segments if s.base_offset < self.newest.end_offset]
        for group in grouped(reached, self._settings.segment_bytes):
            swap = self._write(group)
            if swap is not None:
                yield swap

    def _write(self, group: Sequence[Segment]) -> Swap | None:
        """Write what is kept of a group; None when that is all of it."""
        first, last = group[0], group[-1]
        cleaned = path_of(first.directory, first.base_offset, CLEANED_SUFFIX)
        new = Segment(first.directory, first.base_offset, last.created_ms)
        new.index = Index()
        fd = os.open(cleaned, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            retention_ms = self._settings.delete_retention_ms
            cleaner = Cleaner(self.newest, self._now_ms, retention_ms, self._with_records)
            for segment in group:
                for batch in cleaner.clean(segment):
                    _write_all(fd, batch)
                    new.note(read_header(batch), self._settings.index_interval_bytes)
            if (gap := cleaner.take_gap(last.next_offset)) is not None:
                _write_all(fd, gap)
                new.note(read_header(gap), self._settings.index_interval_bytes)
            os.fdatasync(fd)
        except OSError:
            cleaned.unlink(missing_ok=True)
            raise
        finally:
            os.close(fd)
        if len(group) == 1 and not cleaner.changed:
            cleaned.unlink()
            return None
        swap = first.directory / f"{first.base_offset:020d}.{last.next_offset:020d}{SWAP_SUFFIX}"
        cleaned.rename(swap)
        files.sync(first.directory)
        return Swap(path=swap, old=group, new=new)


class Cleaner:
    """Decides batch by batch what is kept, and keeps the offsets without holes."""

    def __init__(
        self, newest: Newest, now_ms: int, delete_retention_ms: int, with_records: set[int]
    ) -> None:
        """Prepare; `with_records` are the producers whose transaction has kept some so far."""
        self._newest = newest
        self._with_records = with_records
        self._now_ms = now_ms
        self._delete_retention_ms = delete_retention_ms
        self._gap: tuple[int, int] | None = None  # offset and leader epoch where it begins
        self.changed = False

    def clean(self, segment: Segment) -> Iterator[memoryview | bytearray]:
        """Yield what is kept of a segment, in order."""
        for _, header, batch in segment.scan():
            kept = self._kept(header, batch)
            if kept is None:
                if self._gap is not None and self._gap[1] != header.leader_epoch:
                    yield self._fill(header.base_offset)
                if self._gap is None:
                    self._gap = (header.base_offset, header.leader_epoch)
                continue
            if (gap := self.take_gap(header.base_offset)) is not None:
                yield gap
            yield kept

    def take_gap(self, end_offset: int) -> bytearray | None:
        """Return the batch without records that fills the gap before `end_offset`, if any."""
        return None if self._gap is None else self._fill(end_offset)

    def _fill(self, end_offset: int) -> bytearray:
        assert self._gap is not None
        (offset, epoch), self._gap = self._gap, None
        header = BatchHeader(
            base_offset=offset,
            size=0,
            leader_epoch=epoch,
            crc=0,
            attributes=0,
            last_offset_delta=end_offset - offset - 1,
            base_timestamp=NO_TIMESTAMP,
            max_timestamp=NO_TIMESTAMP,
            producer_id=_NO_PRODUCER,
            producer_epoch=-1,
            base_sequence=-1,
            record_count=0,
        )
        return build_compacted(header, [])

    def _kept(self, header: BatchHeader, batch: memoryview) -> memoryview | bytearray | None:
        """Return the batch as it was, with fewer records, or None."""
        if header.is_control:
            return self._kept_marker(header, batch)
        records = read_records(batch)
        live = [record for record in records if self._newest.keeps(record)]
        horizon = header.base_timestamp if header.attributes & _HAS_HORIZON else None
        if horizon is not None and horizon <= self._now_ms:
            live = [record for record in live if record.value is not None]
        if self._newest.is_aborted(header):
            live = []
        if live and header.is_transactional:
            self._with_records.add(header.producer_id)
        marks = horizon is None and any(record.value is None for record in live)
        if len(live) == len(records) and records and not marks:
            return batch
        if not live and not self._newest.ends_with(header):
            self.changed |= bool(records)
            return None
        if not live and not records:
            return batch
        self.changed = True
        attributes = header.attributes if live else header.attributes & ~COMPRESSION_MASK
        changed = replace(header, attributes=attributes)
        if marks:
            self._set_horizon(changed)
        return build_compacted(changed, live)

    def _kept_marker(self, header: BatchHeader, batch: memoryview) -> memoryview | bytearray | None:
        """Return the marker, or None if nobody can need it any more."""
        if header.producer_id in self._with_records:
            self._with_records.discard(header.producer_id)
            return batch
        if self._newest.ends_with(header):
            return batch
        if not header.attributes & _HAS_HORIZON:
            self.changed = True
            records = read_records(batch)  # with the times that the old base gives them
            self._set_horizon(header)
            return build_compacted(header, records)
        if header.base_timestamp > self._now_ms:
            return batch
        self.changed = True
        return None

    def _set_horizon(self, header: BatchHeader) -> None:
        header.attributes |= _HAS_HORIZON
        header.base_timestamp = self._now_ms + self._delete_retention_ms


def grouped(segments: Sequence[Segment], segment_bytes: int) -> Iterator[list[Segment]]:
    """Join neighbours which fit into one segment."""
    group: list[Segment] = []
    for segment in segments:
        if group and (
            sum(s.size for s in group) + segment.size > segment_bytes
            or segment.next_offset - group[0].base_offset > RELATIVE_OFFSET_MAX
        ):
            yield group
            group = []
        group.append(segment)
    if group:
        yield group


def finish_swaps(directory: Path) -> None:
    """Bring what compaction left behind to its end, or away."""
    for path in directory.glob(f"*{CLEANED_SUFFIX}"):
        path.unlink()
    for path in directory.glob(f"*{SWAP_SUFFIX}"):
        base, following = (int(part) for part in path.stem.split("."))
        if not path_of(directory, following, LOG_SUFFIX).exists():
            path.unlink()  # all that it was made of has gone, or what follows it would be there
            continue
        for old in directory.glob(f"*{LOG_SUFFIX}"):
            if base <= int(old.stem) < following:
                for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, LOG_SUFFIX):
                    old.with_suffix(suffix).unlink(missing_ok=True)
        path.rename(path_of(directory, base, LOG_SUFFIX))
        files.sync(directory)


def discard(directory: Path) -> None:
    """Remove what compaction has ready, because the log was cut below it."""
    for path in (*directory.glob(f"*{CLEANED_SUFFIX}"), *directory.glob(f"*{SWAP_SUFFIX}")):
        path.unlink(missing_ok=True)  # a thread may just rename it


def _never(_: BatchHeader) -> bool:
    return False


def _fingerprint(key: bytes) -> bytes:
    """Return the key itself if it is short, else 33 bytes that stand for it."""
    if len(key) <= _KEY_BYTES_MAX:
        return key
    return b"\0" + hashlib.blake2b(key, digest_size=_KEY_BYTES_MAX).digest()


def _write_all(fd: int, data: memoryview | bytearray) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
