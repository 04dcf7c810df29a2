"""Committed offsets: what is logged, and what the log makes of them."""

import pytest

from chordmq.broker.groups.offsets import Commit, CommittedOffset, OffsetKey, OffsetRecord, Offsets
from chordmq.errors import OffsetMetadataTooLarge
from chordmq.records.marker import Marker

A0 = OffsetKey("g", "a", 0)
A1 = OffsetKey("g", "a", 1)
B0 = OffsetKey("g", "b", 0)
OTHER = OffsetKey("other", "a", 0)


def at(offset: int, commit_ms: int = 0, expire_ms: int = -1) -> CommittedOffset:
    return CommittedOffset(offset=offset, commit_ms=commit_ms, expire_ms=expire_ms)


@pytest.fixture
def offsets() -> Offsets:
    offsets = Offsets(metadata_bytes_max=10)
    for key in (A0, A1, B0, OTHER):
        offsets.replay(offsets.commit(key, at(5)))
    return offsets


def test_a_commit_changes_nothing_before_it_comes_back_from_the_log(offsets: Offsets) -> None:
    record = offsets.commit(A0, at(6))
    assert offsets.of_group("g")["a", 0].offset == 5
    offsets.replay(record)
    assert offsets.of_group("g")["a", 0].offset == 6


def test_a_group_that_never_committed_has_nothing(offsets: Offsets) -> None:
    assert offsets.of_group("nobody") == {}


def test_metadata_is_limited_in_bytes(offsets: Offsets) -> None:
    offsets.commit(A0, CommittedOffset(offset=1, commit_ms=0, metadata="x" * 10))
    with pytest.raises(OffsetMetadataTooLarge):
        offsets.commit(A0, CommittedOffset(offset=1, commit_ms=0, metadata="ü" * 6))


def test_deleting_a_group_deletes_all_its_offsets_and_no_others(offsets: Offsets) -> None:
    for record in offsets.delete_group("g"):
        offsets.replay(record)
    assert list(offsets.groups()) == ["other"]


def test_deleting_a_topic_deletes_its_offsets_in_every_group(offsets: Offsets) -> None:
    records = offsets.delete_topic("a")
    assert {record.key for record in records} == {A0, A1, OTHER}
    for record in records:
        offsets.replay(record)
    assert offsets.topics() == {"b"}
    assert list(offsets.groups()) == ["g"]


def test_deleting_what_is_not_there_does_nothing(offsets: Offsets) -> None:
    offsets.replay(OffsetRecord(OffsetKey("nobody", "a", 0), None))
    assert set(offsets.groups()) == {"g", "other"}


def test_offsets_expire_after_the_retention_time_since_they_were_last_in_use(
    offsets: Offsets,
) -> None:
    def idle_since(topic: str, committed: CommittedOffset) -> int | None:
        return None if topic == "b" else 100

    assert offsets.expire("g", idle_since, 50, 149) == []
    expired = offsets.expire("g", idle_since, 50, 150)
    assert {record.key for record in expired} == {A0, A1}
    assert all(record.committed is None for record in expired)


def test_an_offset_with_its_own_expiry_goes_at_that_time(offsets: Offsets) -> None:
    offsets.replay(offsets.commit(A0, at(5, expire_ms=30)))
    (expired,) = offsets.expire("g", lambda topic, committed: 0, 10_000, 30)
    assert expired.key == A0


MARKER = Marker(1, 0, is_commit=True)


def test_pending_offsets_count_with_the_marker_of_their_producer_and_partition(
    offsets: Offsets,
) -> None:
    """C3: a transaction's offsets are decided where they are logged, each by its own marker."""
    offsets.replay_pending(3, 1, OffsetRecord(A0, at(9)))
    offsets.replay_pending(4, 1, OffsetRecord(OTHER, at(9)))
    offsets.replay_pending(3, 2, OffsetRecord(B0, at(9)))
    assert offsets.pending("g") == {("a", 0), ("b", 0)}
    assert offsets.replay_marker(3, MARKER) == ["g"]
    assert offsets.pending("g") == {("b", 0)}
    assert offsets.of_group("g")["a", 0].offset == 9
    assert offsets.of_group("other")["a", 0].offset == 5
    assert offsets.replay_marker(3, Marker(2, 0, is_commit=False)) == []
    assert offsets.of_group("g")["b", 0].offset == 5


def test_a_later_commit_is_not_undone_by_a_pending_one_but_another_pending_one_stays(
    offsets: Offsets,
) -> None:
    offsets.replay_pending(3, 1, OffsetRecord(A0, at(8)))
    offsets.replay_pending(3, 2, OffsetRecord(A0, at(9)))
    offsets.replay_marker(3, MARKER)
    assert offsets.pending("g") == {("a", 0)}
    offsets.replay(OffsetRecord(A0, at(20)))
    assert offsets.pending("g") == set()


def test_deleting_a_group_or_a_topic_deletes_what_is_pending_too(offsets: Offsets) -> None:
    for delete in (offsets.delete_group, offsets.delete_topic):
        offsets.replay_pending(3, 1, OffsetRecord(OffsetKey("g", "g", 0), at(9)))
        assert "g" in offsets.topics()
        for record in delete("g"):
            offsets.replay(record)
        assert offsets.pending("g") == set()
        assert offsets.of_group("g") == {}


def test_an_endless_retention_time_ends_where_time_does(offsets: Offsets) -> None:
    """C12: found by hostile frames; the sum did not fit into the log's record."""
    commit = Commit(topic="a", partition=0, offset=7)
    ((_, committed),), _ = offsets.commits("g", [commit], now_ms=5, retention_ms=2**63 - 1)
    assert committed is not None
    assert committed.expire_ms == 2**63 - 1
