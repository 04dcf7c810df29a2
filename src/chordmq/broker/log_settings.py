"""What a log needs to know of its topic's settings."""

from chordmq.broker.settings import TopicSettings
from chordmq.storage.settings import LogSettings


def log_settings(settings: TopicSettings) -> LogSettings:
    """Return what the log needs to know of its topic's settings."""
    return LogSettings(
        segment_bytes=settings.segment_bytes,
        segment_ms=settings.segment_ms,
        index_interval_bytes=settings.index_interval_bytes,
        retention_ms=settings.retention_ms,
        retention_bytes=settings.retention_bytes,
        memory_retention_ms=settings.memory_retention_ms,
        cleanup=frozenset(settings.cleanup_policy),
        delete_retention_ms=settings.delete_retention_ms,
        min_compaction_lag_ms=settings.min_compaction_lag_ms,
        max_compaction_lag_ms=settings.max_compaction_lag_ms,
        min_cleanable_dirty_ratio=settings.min_cleanable_dirty_ratio,
    )
