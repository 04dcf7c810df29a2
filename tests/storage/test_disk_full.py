"""A full disk refuses the append and nothing else."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from chordmq.errors import DiskFull, StorageFailed
from chordmq.storage import files
from chordmq.storage.log import LogSettings
from chordmq.storage.segment import Segment
from tests.storage.logs import SMALL, append, batch, disk, everything

LIMITED = """
import resource, signal, sys
from pathlib import Path
from chordmq.errors import DiskFull
from chordmq.storage.log import LogSettings
from tests.storage.logs import append, batch, disk, everything

IS_LENT = sys.argv[2] == "lent"

def batches(size):
    return [batch(b"x" * (size // 2)), batch(b"x" * (size // 2))]

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with disk(Path(sys.argv[1])) as d:
    log = d.log(LogSettings())
    for number in range(10):
        append(log, batch(b"%d" % number * 1000))
    log.flush()
    resource.setrlimit(resource.RLIMIT_FSIZE, (log.size + 1500, resource.RLIM_INFINITY))
    refused = 0
    for size in (2000, 5000, 1000, 1000):
        end = log.end_offset
        try:
            append(log, *batches(size), is_lent=IS_LENT)
        except DiskFull as error:
            assert "no room" in str(error)
            assert log.segments[0].path.stat().st_size == log.size
            assert log.end_offset == end
            refused += 1
    assert refused == 3, refused
    assert len(everything(log)) == 12
    log._tail.clear()
    assert len(everything(log)) == 12
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    append(log, batch(b"goes on"))
    log.close()
    log = d.log(LogSettings())
    assert [record.value for record in everything(log)][10:] == [b"x" * 500, b"x" * 500, b"goes on"]
    log.close()
"""


@pytest.mark.parametrize("memory", ["own", "lent"])
def test_a_write_that_fits_only_in_part_is_undone(tmp_path: Path, memory: str) -> None:
    """C11: the kernel really stops the write half way; the log is as before and goes on."""
    subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path), memory],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        check=True,
    )


def test_no_room_for_a_new_segment_is_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C11: rolling needs a new file; without one the log stays with what it has."""
    with disk(tmp_path) as d:
        log = d.log(SMALL)
        append(log, batch(b"x" * 3000))
        really_open = os.open

        def refuse(path: str, flags: int, mode: int = 0o777) -> int:
            if flags & os.O_CREAT:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return really_open(path, flags, mode)

        with monkeypatch.context() as patch:
            patch.setattr(os, "open", refuse)
            with pytest.raises(DiskFull):
                append(log, batch(b"y" * 3000))
            assert len(everything(log)) == 1
        append(log, batch(b"y" * 3000))
        assert len(log.segments) == 2
        log.close()


def test_a_write_that_can_not_be_undone_closes_the_log_for_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with disk(tmp_path) as d:
        log = d.log(SMALL)
        append(log, batch(b"kept"))

        def fail(*_: object) -> int:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        with monkeypatch.context() as patch:
            patch.setattr(os, "write", fail)
            patch.setattr(os, "ftruncate", fail)
            with pytest.raises(StorageFailed, match="undo"):
                append(log, batch(b"lost"))
        with pytest.raises(StorageFailed):
            append(log, batch(b"refused"))
        assert [record.value for record in everything(log)] == [b"kept"]
        log.close()


def test_a_full_disk_can_still_be_emptied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C11: retention and DeleteRecords work without room for a new file."""
    with disk(tmp_path) as d:
        log = d.log(SMALL)
        for _ in range(30):
            append(log, batch(b"x" * 500))
        log.flush()

        def refuse(*_: object) -> Segment:
            raise DiskFull("no room")

        with monkeypatch.context() as patch:
            patch.setattr(Segment, "create", refuse)
            log.delete_before(30).result()
            log.settings = LogSettings(retention_ms=0)
            log.maintain()
        assert (log.start_offset, len(log.segments)) == (30, 1)
        append(log, batch(b"next"))
        assert [record.value for record in everything(log)] == [b"next"]
        log.close()


def test_indexes_that_can_not_be_saved_do_not_stop_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C11: the records are flushed; what can be made from them may wait until there is room."""
    with disk(tmp_path) as d:
        log = d.log(SMALL)

        def refuse(*_: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        for _ in range(30):
            append(log, batch(b"x" * 500))
        with monkeypatch.context() as patch:
            patch.setattr(files, "replace", refuse)
            patch.setattr(os, "pwrite", refuse)
            log.flush()
        assert log.flushed_offset == 30
        waiting = [log.has_unflushed_segments]
        log.flush()
        assert [*waiting, log.has_unflushed_segments] == [True, False]
        assert len(everything(log)) == 30
        log.close()
        log = d.log(SMALL)
        assert log.recovered.bytes_scanned == 0
        log.close()


def test_a_failed_sync_is_a_failure_of_the_storage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D5: what could not be synced does not count as flushed."""
    with disk(tmp_path) as d:
        log = d.log(SMALL)
        append(log, batch(b"value"))
        flush = log.begin_flush()
        assert flush is not None

        def fail(_: int) -> None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        with monkeypatch.context() as patch:
            patch.setattr(os, "fdatasync", fail)
            with pytest.raises(StorageFailed, match="cannot sync"):
                flush.sync()
        assert log.flushed_offset == 0
        log.abandon()
