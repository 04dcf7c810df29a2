"""Proves that a log of other nodes holds nothing and takes nothing."""

from pathlib import Path

import pytest

from chordmq.errors import NotLeader
from chordmq.storage.absent import AbsentLog
from chordmq.storage.settings import LogSettings


def test_it_is_empty_and_refuses_to_be_read_or_written(tmp_path: Path) -> None:
    log = AbsentLog(tmp_path / "t-0", LogSettings())
    assert (log.start_offset, log.end_offset, log.size, log.segments) == (0, 0, 0, ())
    assert list(log.scan(0)) == []
    assert log.begin_flush() is None
    assert log.begin_compaction() is None
    for refused in (
        lambda: log.append([memoryview(b"")], []),
        lambda: log.read(0, 100),
        lambda: log.epoch_end(0),
        lambda: log.offset_for_time(0),
        lambda: log.latest_time(),
        lambda: log.delete_before(0),
    ):
        with pytest.raises(NotLeader):
            refused()
    log.maintain()
    log.close()
    assert not (tmp_path / "t-0").exists()
