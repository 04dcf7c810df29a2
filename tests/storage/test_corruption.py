"""A flipped byte anywhere on the disk never gives a reader a wrong record."""

import random
from pathlib import Path

import pytest

from chordmq.errors import CorruptBatch
from chordmq.records.record import Record
from chordmq.storage.log import Log, LogSettings
from tests.storage.logs import SMALL, Disk, append, batch, disk, everything, records_of

COUNT = 60
TINY = LogSettings(segment_bytes=900, index_interval_bytes=256)


def filled(d: Disk, count: int = COUNT, settings: LogSettings = SMALL) -> list[Record]:
    """Make a closed log of several segments, and return its records."""
    log = d.log(settings)
    for number in range(count):
        append(log, batch(b"value %04d" % number * 10), epoch=number * 3 // count)
    records = everything(log)
    log.close()
    return records


def read_all_that_can_be_read(log: Log) -> tuple[list[Record], int]:
    """Return what a reader gets, going past each damaged offset, and how often it was refused."""
    found, offset, refused = [], log.start_offset, 0
    while offset < log.end_offset:
        try:
            records = [r for r in records_of(log.read(offset, 1000)) if r.offset >= offset]
        except CorruptBatch:
            refused += 1
            offset += 1
        else:
            found += records
            offset = records[-1].offset + 1
    return found, refused


def flip(path: Path, position: int, bit: int) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ 1 << bit]))


def test_a_flipped_bit_in_a_segment_is_reported_and_never_delivered(tmp_path: Path) -> None:
    """D4: every byte of a batch is covered: by its checksum, its offset or its leader epoch."""
    with disk(tmp_path, tail_bytes=0) as d:
        records = filled(d, 15, TINY)
        log = d.log(TINY)
        assert len(log.segments) >= 3
        path = log.segments[1].path
        chosen = random.Random(1)
        for position in range(path.stat().st_size):
            bit = chosen.randrange(8)
            flip(path, position, bit)
            log.segments[1].index_rebuilt = False
            found, refused = read_all_that_can_be_read(log)
            assert refused, f"bit {bit} of byte {position} went unnoticed"
            assert all(record == records[record.offset] for record in found)
            assert any(str(path) in fault for fault in log.corruptions)
            flip(path, position, bit)
            log.reader.corruptions.clear()
        assert read_all_that_can_be_read(log) == (records, 0)
        log.close()


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_flipped_bit_in_an_index_costs_time_but_no_record(tmp_path: Path, suffix: str) -> None:
    """D3: D4: indexes are hints; one that leads astray is made anew from the log."""
    with disk(tmp_path, tail_bytes=0) as d:
        records = filled(d)
        log = d.log(SMALL)
        times = {record.timestamp for record in records}
        path = log.segments[1].path.with_suffix(suffix)
        whole = path.read_bytes()
        for position in range(len(whole)):
            for bit in (0, 7):
                flip(path, position, bit)
                assert read_all_that_can_be_read(log) == (records, 0)
                assert log.offset_for_time(min(times)) == (0, min(times))
                path.write_bytes(whole)
                log.segments[1].index_rebuilt = False
        assert not log.corruptions
        log.close()


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("number", [0, -1])
@pytest.mark.parametrize("content", [None, b"", b"\xff" * 20])
def test_missing_and_broken_indexes_are_rebuilt(
    tmp_path: Path, suffix: str, number: int, content: bytes | None
) -> None:
    """D5: indexes are made anew from the log when they are missing or make no sense."""
    with disk(tmp_path, tail_bytes=0) as d:
        records = filled(d)
        path = sorted((tmp_path / "t-0").glob(f"*{suffix}"))[number]
        path.unlink()
        if content is not None:
            path.write_bytes(content)
        log = d.log(SMALL)
        assert everything(log) == records
        assert everything(log, max_bytes=1) == records
        log.close()


def test_a_broken_epoch_checkpoint_is_rebuilt_from_the_log(tmp_path: Path) -> None:
    with disk(tmp_path, tail_bytes=0) as d:
        records = filled(d)
        flip(tmp_path / "t-0" / "leader-epoch-checkpoint", 0, 0)
        log = d.log(SMALL)
        assert everything(log) == records
        assert [log.epoch_end(epoch) for epoch in range(3)] == [(0, 20), (1, 40), (2, 60)]
        log.close()
        log = d.log(SMALL)
        assert log.recovered.bytes_scanned == 0
        log.close()


def test_a_damaged_segment_below_the_checkpoint_is_never_cut(tmp_path: Path) -> None:
    """D5: recovery cuts only what was not flushed; losing the catalogue changes nothing."""
    with disk(tmp_path, tail_bytes=0) as d:
        records = filled(d)
        flip(sorted((tmp_path / "t-0").glob("*.log"))[1], 500, 3)
        d.database.close()
        for path in tmp_path.glob("meta.db*"):
            path.unlink()
        d.open_database()
        log = d.log(SMALL)
        assert log.end_offset == COUNT
        found, refused = read_all_that_can_be_read(log)
        assert refused
        assert {record.offset for record in found} >= set(range(log.segments[2].base_offset, COUNT))
        assert all(record == records[record.offset] for record in found)
        log.close()
