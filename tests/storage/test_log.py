"""The log: append, read, roll, flush, and what a reopened log knows."""

import os
import shutil
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from chordmq.clock import ManualClock
from chordmq.errors import OffsetOutOfRange
from chordmq.records.record import NewRecord, build_batch
from chordmq.storage.tail import UNREAD_MAX
from tests.storage.logs import SMALL, append, batch, crash, disk, everything, headers_of


def values(count: int, size: int = 100) -> list[bytes]:
    return [b"%06d" % number + b"x" * (size - 6) for number in range(count)]


def test_what_was_appended_is_read_back(tmp_path: Path) -> None:
    with disk(tmp_path) as d:
        log = d.log()
        for value in values(200):
            append(log, batch(value))
        assert [record.value for record in everything(log)] == values(200)
        assert [record.offset for record in everything(log)] == list(range(200))
        log.close()


def test_a_reopened_log_gives_the_same_records_from_the_files(tmp_path: Path) -> None:
    """D2: D3: segments roll by size, and are found by offset without the memory tail."""
    with disk(tmp_path) as d:
        log = d.log()
        for value in values(200):
            append(log, batch(value))
        log.close()
        log = d.log()
        assert len(log.segments) > 5
        assert log.recovered.bytes_scanned == 0
        assert [record.value for record in everything(log)] == values(200)
        assert [record.value for record in everything(log, max_bytes=1)] == values(200)
        for offset in range(200):
            assert headers_of(log.read(offset, 1))[0].base_offset == offset
        log.close()


def test_a_crashed_log_has_everything_that_was_written(tmp_path: Path) -> None:
    """D5: a crash of the process, with no flush and no clean close, takes nothing away."""
    with disk(tmp_path) as d:
        log = d.log()
        for value in values(200):
            append(log, batch(value))
        crash(log)
        log = d.log()
        assert log.flushed_offset == log.end_offset == 200
        assert [record.value for record in everything(log)] == values(200)
        log.close()


def test_a_flush_moves_the_flushed_offset_to_where_the_log_was_when_it_began(
    tmp_path: Path,
) -> None:
    with disk(tmp_path) as d:
        log = d.log()
        append(log, batch(b"a", b"b"))
        flush = log.begin_flush()
        assert flush is not None
        append(log, batch(b"c"))
        flush.sync()
        log.finish_flush(flush)
        assert (log.flushed_offset, log.end_offset) == (2, 3)
        log.flush()
        assert log.flushed_offset == 3
        assert log.begin_flush() is None
        log.close()


def test_offsets_outside_the_log_are_refused_and_its_end_is_empty(tmp_path: Path) -> None:
    with disk(tmp_path) as d:
        log = d.log()
        append(log, batch(b"a", b"b"))
        assert log.read(2, 100) == []
        for offset in (-1, 3):
            with pytest.raises(OffsetOutOfRange):
                log.read(offset, 100)
        log.close()


def test_reads_go_on_from_the_files_into_memory(tmp_path: Path) -> None:
    """A6: what memory has dropped is served from disk, and the reader does not notice."""
    with disk(tmp_path, tail_bytes=2_000) as d:
        log = d.log()
        for value in values(100):
            append(log, batch(value))
        assert 80 < log._tail.start < 100
        (*_, last) = headers_of(log.read(0, 1 << 20))
        assert last.next_offset == 100
        assert [record.value for record in everything(log, max_bytes=700)] == values(100)
        log.close()


@pytest.mark.parametrize("start", [0, 99, 100])
def test_who_reads_up_to_the_end_follows_the_log(tmp_path: Path, start: int) -> None:
    """A6: from files, from memory or without finding anything."""
    with disk(tmp_path, tail_bytes=10_000) as d:
        log = d.log()
        for value in values(100):
            append(log, batch(value))
        log._tail._unread = UNREAD_MAX
        log.read(start, 1 << 20)
        assert log._tail._unread == 0
        log.close()


def test_who_reads_all_that_may_be_read_follows_the_log(tmp_path: Path) -> None:
    """A6: what is not committed yet lies behind it."""
    with disk(tmp_path, tail_bytes=10_000) as d:
        log = d.log()
        for value in values(100):
            append(log, batch(value))
        log._tail.clear()
        log._tail._unread = UNREAD_MAX + 1
        log.read(0, 1 << 20, limit=98)
        append(log, batch(b"new"))
        assert log._tail.start == 100
        log.close()


def test_who_stops_before_the_end_does_not_follow_the_log(tmp_path: Path) -> None:
    """A6: one who reads old records needs none of the newest in memory."""
    with disk(tmp_path, tail_bytes=10_000) as d:
        log = d.log()
        for value in values(100):
            append(log, batch(value))
        log._tail._unread = UNREAD_MAX
        log.read(0, 100)
        assert log._tail._unread == UNREAD_MAX
        log.close()


@pytest.mark.parametrize("tail_bytes", [1, 1 << 20])
def test_batches_that_are_lent_are_written_and_kept_as_they_were(
    tmp_path: Path, tail_bytes: int
) -> None:
    """A6: their memory is used again at once; readers of files and of memory do not notice."""
    with disk(tmp_path, tail_bytes=tail_bytes) as d:
        log = d.log()
        for start in range(0, 90, 3):
            append(log, *map(batch, values(90)[start : start + 3]), is_lent=True)
        assert [record.value for record in everything(log)] == values(90)
        log.close()
        log = d.log()
        assert [record.value for record in everything(log)] == values(90)
        log.close()


def test_memory_retention_drops_records_from_memory_only(tmp_path: Path) -> None:
    """A6: past the memory retention records come from disk."""
    clock = ManualClock()
    with disk(tmp_path, clock=clock) as d:
        log = d.log(replace(SMALL, memory_retention_ms=1000))
        append(log, batch(b"old"))
        clock.advance(1001)
        append(log, batch(b"new"))
        log.maintain()
        assert log._tail.start == 1
        assert [record.value for record in everything(log)] == [b"old", b"new"]
        log.close()


def test_a_segment_rolls_when_it_is_old_enough(tmp_path: Path) -> None:
    """D2: segments roll by age, counted from the first record in them."""
    clock = ManualClock()
    with disk(tmp_path, clock=clock) as d:
        log = d.log(replace(SMALL, segment_ms=1000))
        clock.advance(5000)
        append(log, batch(b"a"))
        clock.advance(999)
        append(log, batch(b"b"))
        assert len(log.segments) == 1
        clock.advance(1)
        append(log, batch(b"c"))
        assert [segment.base_offset for segment in log.segments] == [0, 2]
        log.close()


def test_retention_deletes_old_segments_and_their_files(tmp_path: Path) -> None:
    """A6: C7: past the disk retention the records are gone, the active segment's too."""
    clock = ManualClock()
    with disk(tmp_path, clock=clock) as d:
        log = d.log(replace(SMALL, retention_ms=1000))
        for value in values(60):
            append(log, batch(value, timestamp=clock.now_ms()))
        held = log.read(0, 1000)
        log.flush()
        clock.advance(1001)
        log.maintain()
        assert (log.start_offset, log.end_offset, log.size) == (60, 60, 0)
        with pytest.raises(OffsetOutOfRange):
            log.read(59, 1)
        log.flush()
        assert len(list(log.directory.glob("*.log"))) == 1
        assert not list(log.directory.glob("*.deleted"))
        assert headers_of(held)[0].base_offset == 0
        append(log, batch(b"next"))
        crash(log)
        log = d.log()
        assert [(r.offset, r.value) for r in everything(log)] == [(60, b"next")]
        log.close()


def test_retention_by_size_keeps_what_it_must(tmp_path: Path) -> None:
    """C7: retention.bytes."""
    with disk(tmp_path) as d:
        log = d.log(replace(SMALL, retention_bytes=10_000))
        for value in values(200):
            append(log, batch(value))
        log.flush()
        log.maintain()
        assert 10_000 <= log.size < 10_000 + 2 * SMALL.segment_bytes
        assert everything(log)[0].offset == log.start_offset > 0
        log.close()


def test_unflushed_segments_are_not_deleted(tmp_path: Path) -> None:
    """What no reader has seen yet stays, however old its timestamps are."""
    with disk(tmp_path) as d:
        log = d.log(replace(SMALL, retention_ms=0))
        for value in values(60):
            append(log, batch(value, timestamp=1))
        log.maintain()
        assert log.start_offset == 0
        log.flush()
        log.maintain()
        assert log.start_offset == 60
        log.close()


def test_deleted_records_stay_deleted_after_a_crash(tmp_path: Path) -> None:
    """C7: DeleteRecords moves the start of the log durably, within a segment too."""
    with disk(tmp_path) as d:
        log = d.log()
        for value in values(60):
            append(log, batch(value))
        log.delete_before(33).result()
        assert log.segments[0].base_offset <= 33 < log.segments[0].next_offset
        crash(log)
        log = d.log()
        assert [record.offset for record in everything(log)] == list(range(33, 60))
        log.delete_before(60).result()
        assert (log.start_offset, log.size) == (60, 0)
        log.close()


def test_truncation_forgets_offsets_epochs_and_snapshots(tmp_path: Path) -> None:
    with disk(tmp_path) as d:
        log = d.log()
        for number, value in enumerate(values(60)):
            append(log, batch(value), epoch=number // 20)
        log.write_snapshot(10, b"ten")
        log.write_snapshot(50, b"fifty")
        log.truncate(25)
        assert (log.end_offset, log.epoch_end(2)) == (25, (1, 25))
        assert log.newest_snapshot() == (10, b"ten")
        append(log, batch(b"other"), epoch=5)
        crash(log)
        log = d.log()
        assert everything(log)[-1].value == b"other"
        assert [log.epoch_end(epoch) for epoch in (0, 4, 5)] == [(0, 20), (1, 25), (5, 26)]
        log.close()


def test_a_batch_across_the_cut_is_removed_whole(tmp_path: Path) -> None:
    with disk(tmp_path) as d:
        log = d.log()
        append(log, batch(b"a", b"b"), batch(b"c", b"d"))
        log.truncate(3)
        assert log.end_offset == 2
        log.close()


def test_a_truncated_log_ignores_the_flush_under_way(tmp_path: Path) -> None:
    with disk(tmp_path) as d:
        log = d.log()
        append(log, batch(b"a"))
        log.flush()
        append(log, batch(b"b"))
        flush = log.begin_flush()
        assert flush is not None
        log.truncate(1)
        append(log, batch(b"other"))
        flush.sync()
        log.finish_flush(flush)
        assert (log.flushed_offset, log.end_offset) == (1, 2)
        log.close()


def test_a_restarted_log_goes_on_at_its_new_start_also_after_a_crash(tmp_path: Path) -> None:
    with disk(tmp_path) as d:
        log = d.log()
        for number, value in enumerate(values(60)):
            append(log, batch(value), epoch=number // 20)
        log.restart(500)
        assert (log.start_offset, log.end_offset, log.flushed_offset) == (500, 500, 500)
        assert (log.latest_epoch, log.size) == (-1, 0)
        append(log, batch(b"other"), epoch=7)
        log.flush()
        crash(log)
        log = d.log()
        assert [(r.offset, r.value) for r in everything(log)] == [(500, b"other")]
        assert (log.start_offset, log.epoch_end(7)) == (500, (7, 501))
        log.restart(500)
        assert (log.start_offset, log.end_offset) == (500, 500)
        log.close()


def test_the_end_of_an_epoch_is_where_the_next_begins(tmp_path: Path) -> None:
    """C1: OffsetForLeaderEpoch (KIP-320) survives a restart."""
    with disk(tmp_path) as d:
        log = d.log()
        assert log.epoch_end(0) == (-1, -1)
        for epoch in (1, 1, 4):
            append(log, batch(b"x"), epoch=epoch)
        log.close()
        log = d.log()
        ends = [log.epoch_end(epoch) for epoch in range(6)]
        assert ends == [(-1, -1), (1, 2), (1, 2), (1, 2), (4, 3), (4, 3)]
        log.close()


def test_the_newest_sound_snapshot_is_given_back(tmp_path: Path) -> None:
    with disk(tmp_path) as d:
        log = d.log()
        assert log.newest_snapshot() is None
        for value in values(40):
            append(log, batch(value))
        for offset in (10, 20, 30):
            log.write_snapshot(offset, b"state %d" % offset)
        assert len(list(log.directory.glob("*.snapshot"))) == 2
        newest = log.directory / f"{30:020d}.snapshot"
        newest.write_bytes(newest.read_bytes()[:-1])
        assert log.newest_snapshot() == (20, b"state 20")
        log.close()


def test_offsets_are_found_by_time(tmp_path: Path) -> None:
    """D3: the first record at or after a time, exactly, in every segment and across restarts."""
    with disk(tmp_path) as d:
        log = d.log()
        for number in range(60):
            records = [NewRecord(1000 + 10 * number + step, None, b"x" * 80) for step in (0, 5)]
            append(log, build_batch(records))
        for _ in range(2):
            assert len(log.segments) > 3
            for number in range(0, 60, 7):
                time = 1000 + 10 * number
                assert log.offset_for_time(time) == (2 * number, time)
                assert log.offset_for_time(time + 1) == (2 * number + 1, time + 5)
            assert log.offset_for_time(0) == (0, 1000)
            assert log.offset_for_time(1596) is None
            assert log.latest_time() == (119, 1595)
            log.close()
            log = d.log()
        log.delete_before(51).result()
        assert log.offset_for_time(0) == (51, 1255)
        log.close()


def test_the_latest_time_need_not_be_the_last_record(tmp_path: Path) -> None:
    with disk(tmp_path) as d:
        log = d.log()
        assert log.latest_time() == (-1, -1)
        for time in (5, 900, 7, 900, 8):
            append(log, build_batch([NewRecord(time - 1, None, b""), NewRecord(time, None, b"")]))
        assert log.latest_time() == (3, 900)
        assert log.offset_for_time(8) == (2, 899)
        log.close()


def test_headers_can_be_read_from_any_offset_on(tmp_path: Path) -> None:
    with disk(tmp_path) as d:
        log = d.log()
        for value in values(60):
            append(log, batch(value, value))
        assert [header.base_offset for header in log.batches(0)] == list(range(0, 120, 2))
        assert [header.base_offset for header in log.batches(77)] == list(range(76, 120, 2))
        assert list(log.batches(120)) == []
        log.close()


def test_a_flush_may_run_in_a_thread_while_the_log_grows_rolls_and_shrinks(tmp_path: Path) -> None:
    """D5: the disk is synced beside the event loop, with nothing lost at a crash afterwards."""
    with disk(tmp_path) as d, ThreadPoolExecutor(1) as pool:
        log = d.log()
        flush, done = None, None
        for number, value in enumerate(values(600)):
            append(log, batch(value))
            if done is None and (flush := log.begin_flush()):
                done = pool.submit(flush.sync)
            elif flush is not None and done is not None and done.done():
                log.finish_flush(flush)
                done = None
            if number % 50 == 49:
                log.delete_before(number - 40)
        crash(log)
        log = d.log()
        assert log.start_offset <= 559
        assert [r.value for r in everything(log)] == values(600)[log.start_offset :]
        log.close()


def test_an_idle_log_needs_one_descriptor_and_little_memory(tmp_path: Path) -> None:
    """D2: a thousand idle partitions are cheap: no threads, no maps, some kilobytes each."""
    with disk(tmp_path) as d:
        for number in range(20):
            log = d.log(name=f"t-{number}")
            for value in values(100):
                append(log, batch(value))
            log.close()
        before = len(list(Path("/proc/self/fd").iterdir()))
        tracemalloc.start()
        logs = [d.log(name=f"t-{number}") for number in range(20)]
        used, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(list(Path("/proc/self/fd").iterdir())) - before == 20
        assert used / 20 < 10_000
        for log in logs:
            log.close()


def test_an_abandoned_log_leaves_no_trace_in_the_catalogue(tmp_path: Path) -> None:
    """D6: a deleted partition is forgotten, so that a new one of its name starts at 0."""
    with disk(tmp_path) as d:
        log = d.log()
        append(log, batch(b"x"))
        log.flush()
        append(log, batch(b"y"))
        flush = log.begin_flush()
        log.abandon()
        shutil.rmtree(log.directory)
        assert flush is not None
        flush.sync()
        assert d.catalogue.load("t-0") is None
        log = d.log()
        assert log.end_offset == 0
        log.close()


def refuse_to_sync(fd: int) -> None:
    raise AssertionError("the disk was waited for")


def test_a_log_that_has_not_changed_is_closed_without_waiting_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D5: a node with thousands of quiet partitions stops at once."""
    with disk(tmp_path) as d:
        log = d.log()
        append(log, batch(b"a"), epoch=1)
        log.close()
        monkeypatch.setattr(os, "fdatasync", refuse_to_sync)
        monkeypatch.setattr(os, "fsync", refuse_to_sync)
        log = d.log()
        assert [record.value for record in everything(log)] == [b"a"]
        log.close()


def test_a_log_that_crashed_waits_for_the_disk_once_to_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D5: what the crash left is synced and all else put off, so that many logs open quickly."""
    with disk(tmp_path) as d:
        log = d.log()
        append(log, batch(b"a"), epoch=1)
        log.close()
        log = d.log()
        append(log, batch(b"b"), epoch=1)
        crash(log)
        synced: list[int] = []
        with monkeypatch.context() as patch:
            patch.setattr(os, "fdatasync", synced.append)
            patch.setattr(os, "fsync", refuse_to_sync)
            log = d.log()
        assert [record.value for record in everything(log)] == [b"a", b"b"]
        assert len(synced) == 1
        log.close()
