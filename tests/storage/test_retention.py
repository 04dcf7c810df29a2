"""Retention decisions, as pure functions of what the catalogue knows."""

from dataclasses import replace

from chordmq.storage.metadata.segments import SegmentEntry
from chordmq.storage.retention import cleanable, expired
from chordmq.storage.settings import LogSettings

SETTINGS = LogSettings(retention_ms=-1, retention_bytes=-1)
NOW = 10_000


def segments(*times: int, size: int = 100) -> list[SegmentEntry]:
    return [
        SegmentEntry(
            base_offset=10 * number,
            next_offset=10 * number + 10,
            size=size,
            max_timestamp=time,
            max_timestamp_offset=10 * number,
            created_ms=1_000,
        )
        for number, time in enumerate(times)
    ]


def test_segments_go_when_their_latest_record_is_too_old() -> None:
    """A6: C7: retention.ms."""
    settings = replace(SETTINGS, retention_ms=1_000)
    assert expired(segments(8_000, 8_999, 9_000, 8_000), settings, 400, NOW) == 2
    assert expired(segments(-1, 9_500), settings, 200, NOW) == 1
    assert expired(segments(8_000), SETTINGS, 100, NOW) == 0


def test_segments_go_while_the_rest_is_large_enough() -> None:
    """A6: C7: retention.bytes keeps at least that many bytes."""
    for limit, gone in ((0, 4), (100, 3), (101, 2), (250, 1), (400, 0)):
        settings = replace(SETTINGS, retention_bytes=limit)
        assert expired(segments(1, 2, 3, 4), settings, 400, NOW) == gone


def test_only_topics_with_the_delete_policy_lose_segments() -> None:
    settings = replace(SETTINGS, retention_ms=1, cleanup=frozenset({"compact"}))
    assert expired(segments(1, 2), settings, 200, NOW) == 0
    both = replace(settings, cleanup=frozenset({"compact", "delete"}))
    assert expired(segments(1, 2), both, 200, NOW) == 2


def test_compaction_waits_until_enough_is_dirty() -> None:
    """C7: min.cleanable.dirty.ratio."""
    settings = replace(SETTINGS, cleanup=frozenset({"compact"}), min_cleanable_dirty_ratio=0.5)
    assert cleanable(segments(1, 2, 3, 4), settings, 20, NOW) == 4
    assert cleanable(segments(1, 2, 3, 4), settings, 30, NOW) == 0
    assert cleanable(segments(1, 2, 3, 4), settings, 40, NOW) == 0
    assert cleanable([], settings, 0, NOW) == 0


def test_an_overdue_record_starts_compaction_whatever_the_ratio() -> None:
    settings = replace(
        SETTINGS,
        cleanup=frozenset({"compact"}),
        min_cleanable_dirty_ratio=1.0,
        max_compaction_lag_ms=1_000,
    )
    assert cleanable(segments(8_000, 8_500), settings, 10, NOW) == 2
    assert cleanable(segments(8_000, 9_500), settings, 10, NOW) == 0


def test_young_segments_and_all_after_them_are_not_compacted() -> None:
    settings = replace(SETTINGS, cleanup=frozenset({"compact"}), min_compaction_lag_ms=1_000)
    assert cleanable(segments(8_000, 9_001, 7_000), settings, 0, NOW) == 1
