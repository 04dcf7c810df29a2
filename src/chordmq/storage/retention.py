"""Decides which segments may be deleted or compacted (pure)."""

from collections.abc import Sequence

from chordmq.storage.metadata.segments import SegmentEntry
from chordmq.storage.settings import LogSettings


def expired(
    segments: Sequence[SegmentEntry], settings: LogSettings, log_size: int, now_ms: int
) -> int:
    """Return how many of the oldest segments are to be deleted.

    A segment is too old when its latest record is older than `retention_ms`; the log is too large
    when it has `retention_bytes` even without its oldest segment.
    """
    if "delete" not in settings.cleanup:
        return 0
    count = 0
    for segment in segments:
        too_old = 0 <= settings.retention_ms < now_ms - _latest(segment)
        too_large = 0 <= settings.retention_bytes <= log_size - segment.size
        if not segment.size or not (too_old or too_large):
            break
        log_size -= segment.size
        count += 1
    return count


def _latest(segment: SegmentEntry) -> int:
    """Return the time of a segment's latest record, or of its making if records have no time."""
    return segment.max_timestamp if segment.max_timestamp >= 0 else segment.created_ms


def cleanable(
    segments: Sequence[SegmentEntry], settings: LogSettings, cleaned_offset: int, now_ms: int
) -> int:
    """Return how many of the oldest segments compaction should go through now, or 0.

    Segments with a record younger than `min_compaction_lag_ms` are left alone. The pass is worth
    its work when enough of the bytes are new since the last one, or an old record waits too long.
    """
    if "compact" not in settings.cleanup:
        return 0
    reached: list[SegmentEntry] = []
    for segment in segments:
        if settings.min_compaction_lag_ms and (
            now_ms - segment.max_timestamp < settings.min_compaction_lag_ms
        ):
            break
        reached.append(segment)
    dirty = [segment for segment in reached if segment.next_offset > cleaned_offset]
    dirty_bytes = sum(segment.size for segment in dirty)
    if not dirty_bytes:
        return 0
    ratio = dirty_bytes / sum(segment.size for segment in reached)
    overdue = now_ms - _latest(dirty[0]) > settings.max_compaction_lag_ms
    return len(reached) if overdue or ratio >= settings.min_cleanable_dirty_ratio else 0
