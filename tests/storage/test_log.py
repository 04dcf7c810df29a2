"""The log: append, read, roll, flush, and what a reopened log knows."""

from pathlib import Path

import pytest

from chordmq.errors import OffsetOutOfRange
from tests.storage.logs import append, batch, crash, disk, everything, headers_of


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
