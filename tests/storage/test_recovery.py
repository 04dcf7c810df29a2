"""What a crash leaves behind, and how little of it is read again."""

import os
import signal
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from chordmq.storage import flushing
from chordmq.storage.log import LogSettings
from tests.storage.logs import SMALL, append, batch, crash, disk, everything

WRITER = """
import sys
from pathlib import Path
from chordmq.clock import SystemClock
from chordmq.storage.log import LogSettings
from tests.storage.logs import append, batch, disk

with disk(Path(sys.argv[1]), clock=SystemClock()) as d:
    log = d.log(LogSettings(segment_bytes=20_000, index_interval_bytes=256))
    while True:
        for _ in range(7):
            append(log, batch(b"%08d" % log.end_offset + b"." * 200))
        log.flush()
        sys.stdout.buffer.write(log.flushed_offset.to_bytes(8, "big"))
        sys.stdout.buffer.flush()
"""


@pytest.mark.parametrize("acknowledgements", [1, 5, 40, 90])
def test_a_killed_process_loses_nothing_that_it_acknowledged(
    tmp_path: Path, acknowledgements: int
) -> None:
    """D5: kill -9 while it appends and flushes: every flushed record is there, in order, once."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    ) as writer:
        assert writer.stdout is not None
        flushed = 0
        for _ in range(acknowledgements):
            (flushed,) = struct.unpack(">q", writer.stdout.read(8))
        writer.send_signal(signal.SIGKILL)
        rest = writer.stdout.read()
        if len(rest) >= 8:
            (flushed,) = struct.unpack(">q", rest[: len(rest) // 8 * 8][-8:])
    with disk(tmp_path) as d:
        log = d.log(LogSettings(segment_bytes=20_000, index_interval_bytes=256))
        records = everything(log)
        assert log.end_offset >= flushed
        assert [record.offset for record in records] == list(range(log.end_offset))
        assert all(r.value == b"%08d" % r.offset + b"." * 200 for r in records)
        log.close()


def test_recovery_reads_only_what_came_after_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D5: the time to recover is bounded by the unflushed tail, not by the size of the log."""
    monkeypatch.setattr(flushing, "CHECKPOINT_BYTES", 50_000)
    settings = LogSettings(segment_bytes=100_000)
    with disk(tmp_path) as d:
        log = d.log(settings)
        for number in range(200):
            append(log, *(batch(b"x" * 1000) for _ in range(10)))
            log.flush()
            if number == 198:
                log.delete_before(1000)
        after = batch(b"y" * 1000)
        append(log, after)
        size = log.size
        crash(log)
        log = d.log(settings)
        assert log.end_offset == 2_001
        assert size > 900_000
        assert len(after) <= log.recovered.bytes_scanned < 55_000
        log.close()


def test_a_torn_tail_is_cut_at_the_last_whole_batch(tmp_path: Path) -> None:
    """D5: at whatever byte the write was torn, the batches before it stay and the log goes on."""
    with disk(tmp_path) as d:
        log = d.log(SMALL)
        append(log, batch(b"first"))
        log.flush()
        append(log, batch(b"second"))
        append(log, batch(b"third"))
        path, ends = log.segments[0].path, []
        crash(log)
        whole = path.read_bytes()
        ends = [len(whole) // 3, len(whole) * 2 // 3 + 1, len(whole)]
        for size in range(ends[0] + 1, len(whole)):
            path.write_bytes(whole[:size])
            log = d.log(SMALL)
            values = [record.value for record in everything(log)]
            assert values in ([b"first"], [b"first", b"second"])
            assert log.recovered.bytes_cut == size - log.size
            append(log, batch(b"again"))
            assert everything(log)[-1].value == b"again"
            log.truncate(1)
            log.flush()
            crash(log)


@pytest.mark.parametrize("size", [1_000_000, 1_048_576, 3_000_000])
def test_batches_larger_than_one_read_are_recovered_and_served(tmp_path: Path, size: int) -> None:
    """D5: however large a batch is, it is read whole."""
    with disk(tmp_path, tail_bytes=0) as d:
        log = d.log(LogSettings())
        for number in range(3):
            append(log, batch(b"%d" % number * size), batch(b"small"))
        crash(log)
        log = d.log(LogSettings())
        assert [len(record.value or b"") for record in everything(log, max_bytes=1)] == 3 * [
            size,
            5,
        ]
        assert len(everything(log)) == 6
        assert log.recovered.bytes_cut == 0
        log.close()


def test_zeros_after_the_last_batch_are_cut(tmp_path: Path) -> None:
    """D5: a file system may have made the file longer before the power cut, but not filled it."""
    with disk(tmp_path) as d:
        log = d.log(SMALL)
        append(log, batch(b"first"))
        crash(log)
        with log.segments[0].path.open("ab") as file:
            file.write(bytes(5000))
        log = d.log(SMALL)
        assert (log.end_offset, log.recovered.bytes_cut) == (1, 5000)
        log.close()


def test_a_segment_that_does_not_continue_the_log_is_set_aside(tmp_path: Path) -> None:
    with disk(tmp_path) as d:
        log = d.log(SMALL)
        for _ in range(40):
            append(log, batch(b"x" * 300))
        second = log.segments[1]
        crash(log)
        os.truncate(log.segments[0].path, 700)
        log = d.log(SMALL)
        assert log.end_offset == len(everything(log)) < second.base_offset
        assert not second.path.exists()
        assert all(path.exists() for path in log.recovered.lost)
        log.close()


def test_a_directory_made_anew_does_not_inherit_an_old_checkpoint(tmp_path: Path) -> None:
    with disk(tmp_path) as d:
        log = d.log(SMALL)
        append(log, batch(b"old"))
        log.close()
        for path in log.directory.iterdir():
            path.unlink()
        log.directory.rmdir()
        log = d.log(SMALL)
        assert (log.start_offset, log.end_offset) == (0, 0)
        append(log, batch(b"new"))
        crash(log)
        log = d.log(SMALL)
        assert [record.value for record in everything(log)] == [b"new"]
        log.close()
