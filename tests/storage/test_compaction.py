"""Compaction: the newest record of each key at its old offset, whatever interrupts it."""

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chordmq.clock import ManualClock
from chordmq.errors import CorruptBatch
from chordmq.records.batch import TRANSACTIONAL, BatchHeader
from chordmq.records.compression import Compression
from chordmq.records.marker import Marker, build_marker
from chordmq.records.record import NewRecord, build_batch
from chordmq.storage import compaction as module
from chordmq.storage.log import Log
from tests.storage.compacting import SETTINGS, compact, fill, put, state
from tests.storage.logs import (
    MEMORY,
    append,
    disk,
    everything,
    headers_of,
    records_of,
)


def test_only_the_newest_record_of_each_key_stays_at_its_offset(tmp_path: Path) -> None:
    """C7: compaction keeps the newest value per key, and offsets do not move."""
    with disk(tmp_path) as d:
        log = d.log(SETTINGS)
        fill(log)
        before = {record.offset: record for record in everything(log)}
        active = log.segments[-1].base_offset
        assert compact(log)
        after = everything(log)
        assert [r.offset for r in after if r.offset < active] == [
            active - 3,
            active - 2,
            active - 1,
        ]
        assert [r.offset for r in after if r.offset >= active] == list(range(active, 30))
        assert all(before[record.offset] == record for record in after)
        assert log.end_offset == 30
        log.close()


def test_every_offset_can_still_be_asked_for(tmp_path: Path) -> None:
    """C7: a fetch at a compacted offset goes on with the next record."""
    with disk(tmp_path, tail_bytes=0) as d:
        log = d.log(SETTINGS)
        fill(log)
        compact(log)
        kept = [record.offset for record in everything(log)]
        for offset in range(30):
            found = headers_of(log.read(offset, 1))
            assert found[0].base_offset <= offset < found[0].next_offset
            records = [r.offset for r in records_of(log.read(offset, 10_000)) if r.offset >= offset]
            assert records[0] == min(one for one in kept if one >= offset)
        log.close()


def test_a_compacted_log_is_the_same_after_reopening(tmp_path: Path) -> None:
    with disk(tmp_path, tail_bytes=0) as d:
        log = d.log(SETTINGS)
        fill(log)
        compact(log)
        expected = everything(log)
        log.close()
        log = d.log(SETTINGS)
        assert log.recovered.bytes_scanned == 0
        assert everything(log) == expected
        assert log.begin_compaction() is None
        log.close()


def test_tombstones_stay_for_their_time_and_then_go(tmp_path: Path) -> None:
    """C7: a null value deletes its key, and readers have delete.retention.ms to learn of it."""
    clock = ManualClock()
    with disk(tmp_path, clock=clock) as d:
        log = d.log(SETTINGS)
        put(log, b"gone", b"value")
        put(log, b"gone", None)
        fill(log)
        compact(log)
        marks = [record for record in everything(log) if record.key == b"gone"]
        assert [(record.offset, record.value) for record in marks] == [(1, None)]
        assert marks[0].timestamp == clock.now_ms()
        clock.advance(999)
        fill(log)
        compact(log)
        assert b"gone" in state(log)
        clock.advance(2)
        fill(log)
        compact(log)
        assert b"gone" not in state(log)
        log.close()


@pytest.mark.parametrize("compression", list(Compression))
def test_a_batch_that_loses_records_keeps_its_compression(
    tmp_path: Path, compression: Compression
) -> None:
    with disk(tmp_path, tail_bytes=0) as d:
        log = d.log(SETTINGS)
        records = [NewRecord(5, b"k%d" % n, b"v" * 50) for n in range(5)]
        append(log, build_batch(records, compression=compression))
        put(log, b"k1", b"new")
        put(log, b"k3", b"new")
        fill(log)
        compact(log)
        first = log.read(0, 1)
        header = headers_of(first)[0]
        assert header.attributes & 7 == compression
        assert (header.last_offset_delta, header.record_count) == (4, 3)
        assert [record.key for record in records_of(first)] == [b"k0", b"k2", b"k4"]
        log.close()


def marker(log: Log, producer_id: int, *, is_commit: bool) -> None:
    append(log, build_marker(Marker(producer_id, 0, is_commit), log._clock.now_ms()))


def fill_transactions(log: Log) -> None:
    """Write an aborted and a committed transaction of producer 7, and enough to have segments."""
    put(log, b"a", b"old")
    put(log, b"b", b"aborted", flags=TRANSACTIONAL, producer_id=7, epoch=0)
    marker(log, 7, is_commit=False)
    put(log, b"a", b"committed", flags=TRANSACTIONAL, producer_id=7, epoch=0)
    marker(log, 7, is_commit=True)
    put(log, b"d", b"aborted", flags=TRANSACTIONAL, producer_id=8, epoch=0)
    marker(log, 8, is_commit=False)
    for _ in range(20):
        put(log, b"c", b"x" * 50)


def is_aborted(header: BatchHeader) -> bool:
    return header.base_offset in (1, 5)


def test_aborted_records_go_and_committed_ones_count(tmp_path: Path) -> None:
    """C3, C7: what a reader of committed records never sees takes no room, and hides no record."""
    with disk(tmp_path, tail_bytes=0) as d:
        log = d.log(SETTINGS)
        fill_transactions(log)
        compact(log, is_aborted=is_aborted)
        assert [record.offset for record in everything(log)][:4] == [2, 3, 4, 6]
        log.close()


def test_a_marker_goes_later_than_its_records_and_stays_as_long_as_they_do(tmp_path: Path) -> None:
    """C7: a reader in the middle of a transaction still learns how it ended."""
    clock = ManualClock()
    with disk(tmp_path, tail_bytes=0, clock=clock) as d:
        log = d.log(SETTINGS)
        fill_transactions(log)
        compact(log, is_aborted=is_aborted)
        clock.advance(SETTINGS.delete_retention_ms)
        log.cleaned_offset = 0
        compact(log, is_aborted=is_aborted)
        offsets = [record.offset for record in everything(log)][:4]
        assert offsets[:2] == [3, 4], "the committed record and its marker"
        assert offsets[2] == 6, "the last batch of its producer"
        markers = [h for h in headers_of(log.read(0, 2**20)) if h.is_control]
        assert [header.base_offset for header in markers] == [4, 6]
        log.close()


def test_compaction_ends_before_what_is_not_decided(tmp_path: Path) -> None:
    """C3: an open transaction may still be aborted, and must not hide what it would replace."""
    with disk(tmp_path, tail_bytes=0) as d:
        log = d.log(SETTINGS)
        fill(log)
        before = everything(log)
        assert compact(log, stable_offset=1) == 0
        assert everything(log) == before
        log.close()


def test_a_gap_does_not_hide_where_a_leader_epoch_began(tmp_path: Path) -> None:
    """C1: epochs can still be read from the log when their checkpoint is lost."""
    with disk(tmp_path, tail_bytes=0) as d:
        log = d.log(SETTINGS)
        for number in range(60):
            record = NewRecord(5, b"key", b"%d" % number * 20)
            append(log, build_batch([record]), epoch=number // 4)
        ends = [log.epoch_end(epoch) for epoch in range(15)]
        compact(log)
        log.close()
        (log.directory / "leader-epoch-checkpoint").unlink()
        log = d.log(SETTINGS)
        assert [log.epoch_end(epoch) for epoch in range(15)] == ends
        assert everything(log)[-1].offset == 59
        log.close()


def test_the_last_batch_of_a_producer_stays_for_its_sequence(tmp_path: Path) -> None:
    """C7: a producer that was quiet for long can go on after its records were compacted away."""
    with disk(tmp_path, tail_bytes=0) as d:
        log = d.log(SETTINGS)
        for sequence in range(3):
            put(log, b"a", b"x" * 50, producer_id=9, epoch=1, sequence=sequence)
        fill(log, 20)
        compact(log)
        mine = [header for header in log.batches(0) if header.producer_id == 9]
        assert [(h.base_offset, h.last_sequence, h.record_count) for h in mine] == [(2, 2, 0)]
        log.close()


def test_small_segments_are_joined(tmp_path: Path) -> None:
    with disk(tmp_path, tail_bytes=0) as d:
        log = d.log(replace(SETTINGS, segment_bytes=1000))
        fill(log, 30)
        log.settings = replace(SETTINGS, segment_bytes=1_000_000)
        segments = len(log.segments)
        compact(log)
        assert (len(log.segments), segments > 5) == (2, True)
        log.close()


def test_recent_records_and_clean_logs_are_left_alone(tmp_path: Path) -> None:
    """C7: min.compaction.lag.ms and min.cleanable.dirty.ratio."""
    clock = ManualClock()
    with disk(tmp_path, clock=clock) as d:
        log = d.log(replace(SETTINGS, min_compaction_lag_ms=500))
        fill(log)
        assert compact(log) == 0
        clock.advance(501)
        assert compact(log) > 0
        log.settings = replace(SETTINGS, min_cleanable_dirty_ratio=1.0)
        fill(log, 3)
        assert compact(log) == 0
        log.settings = replace(SETTINGS, cleanup=frozenset({"delete"}))
        assert compact(log) == 0
        log.close()


def test_a_pass_with_too_many_keys_goes_as_far_as_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEYS_MAX", 5)
    monkeypatch.setattr(module.Newest.__init__, "__defaults__", (5,))
    with disk(tmp_path) as d:
        log = d.log(SETTINGS)
        for number in range(60):
            put(log, b"key %d" % (number % 15), b"%d" % number * 20)
        expected, cleaned = state(log), []
        for _ in range(20):
            compact(log)
            cleaned.append(log.cleaned_offset)
            assert state(log) == expected
        assert cleaned == sorted(cleaned)
        assert cleaned[-1] == log.segments[-1].base_offset
        log.close()


def test_a_damaged_segment_is_not_compacted(tmp_path: Path) -> None:
    """D4: a corrupt batch stops the pass, and the old files stay."""
    with disk(tmp_path) as d:
        log = d.log(SETTINGS)
        fill(log)
        log.flush()
        path = log.segments[0].path
        data = bytearray(path.read_bytes())
        data[100] ^= 1
        path.write_bytes(data)
        with pytest.raises(CorruptBatch):
            compact(log)
        assert path.read_bytes() == data
        log.close()


BATCHES = st.lists(
    st.tuples(
        st.lists(
            st.tuples(st.sampled_from(b"abcdef"), st.one_of(st.none(), st.binary(max_size=60))),
            min_size=1,
            max_size=5,
        ),
        st.sampled_from(Compression),
        st.sampled_from([-1, 1, 2]),
    ),
    max_size=40,
)


@given(rounds=st.lists(BATCHES, min_size=1, max_size=3), keys_max=st.sampled_from([2, 4, 1000]))
@settings(deadline=None, max_examples=50)
def test_whatever_was_written_the_newest_of_every_key_can_be_read(
    rounds: list[list[tuple[list[tuple[int, bytes | None]], Compression, int]]], keys_max: int
) -> None:
    """C7: random batches, compacted again and again, against a dictionary."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as root, disk(Path(root), tail_bytes=0) as d:
        log = d.log(replace(SETTINGS, segment_bytes=400, delete_retention_ms=2**40))
        written: dict[int, tuple[bytes, bytes | None]] = {}
        for batches in rounds:
            for rows, compression, producer_id in batches:
                records = [NewRecord(5, bytes([key]), value) for key, value in rows]
                start = log.end_offset
                written |= {start + n: (r.key or b"", r.value) for n, r in enumerate(records)}
                append(log, build_batch(records, compression=compression, producer_id=producer_id))
            work = begin(log, keys_max)
            while work is not None and (swap := work.next()) is not None:
                log.swap(swap)
            log.settings = replace(log.settings, segment_bytes=log.settings.segment_bytes * 2)
            found = everything(log)
            assert state(log) == dict(written.values())
            assert all(written[r.offset] == (r.key, r.value) for r in found)
            headers = list(log.batches(0))
            ends = [header.next_offset for header in headers]
            assert [header.base_offset for header in headers] == [0, *ends[:-1]][: len(ends)]
            assert log.end_offset == len(written)
        before = everything(log)
        log.close()
        log = d.log(SETTINGS)
        assert everything(log) == before
        log.close()


def begin(log: Log, keys_max: int) -> module.Compaction | None:
    log.flush()
    work = log.begin_compaction()
    if work is not None:
        work.newest = module.Newest(keys_max)
    return work
