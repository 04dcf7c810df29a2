"""How a log cuts its files and how long it keeps them."""

from chordmq.dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """How a log cuts its files and how long it keeps them; -1 sets no limit."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3600 * 1000
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * 24 * 3600 * 1000
    retention_bytes: int = -1
    memory_retention_ms: int = 600_000
    cleanup: frozenset[str] = frozenset({"delete"})
    delete_retention_ms: int = 24 * 3600 * 1000
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = 2**63 - 1
    min_cleanable_dirty_ratio: float = 0.5
