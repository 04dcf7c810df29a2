"""Large segment files are given room ahead of what is written, which nobody notices."""

from pathlib import Path

import pytest

from chordmq.storage import files, segment
from chordmq.storage.log import Log, LogSettings
from tests.storage.logs import append, batch, crash, disk, everything

LARGE, AHEAD = 20_000, 1 << 20
SETTINGS = LogSettings(segment_bytes=60_000)
BLOCK = 512


@pytest.fixture(autouse=True)
def _small_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, "RESERVE_FROM", LARGE)
    monkeypatch.setattr(segment, "RESERVE_BYTES", AHEAD)


def grown(log: Log, size: int) -> None:
    """Append until the active segment has so many bytes."""
    while log.segments[-1].size < size:
        append(log, batch(b"x" * 1000))


def room(path: Path) -> int:
    """Return how many bytes the disk holds for a file."""
    return path.stat().st_blocks * BLOCK


def test_a_small_segment_holds_no_room_that_it_does_not_need(tmp_path: Path) -> None:
    """D2: thousands of partitions cost what is in them."""
    with disk(tmp_path) as data:
        log = data.log(SETTINGS)
        grown(log, LARGE - 5000)
        log.flush()
        assert room(log.segments[0].path) < LARGE
        log.close()


def test_a_large_segment_has_room_ahead_and_the_size_of_what_was_written(tmp_path: Path) -> None:
    """D2: readers of the file see no difference."""
    with disk(tmp_path) as data:
        log = data.log(SETTINGS)
        grown(log, LARGE + 5000)
        active = log.segments[0]
        assert room(active.path) >= AHEAD
        assert active.path.stat().st_size == active.size
        assert len(everything(log)) == log.end_offset
        log.close()


@pytest.mark.parametrize("ended_by", ["roll", "close"])
def test_what_was_not_needed_is_given_back(tmp_path: Path, ended_by: str) -> None:
    """D2: a sealed segment and that of a closed log hold what is in them."""
    with disk(tmp_path) as data:
        log = data.log(SETTINGS)
        grown(log, LARGE + 5000)
        first = log.segments[0]
        while ended_by == "roll" and len(log.segments) == 1:
            append(log, batch(b"x" * 1000))
        count = log.end_offset
        log.close()
        assert room(first.path) < AHEAD
        reopened = data.log(SETTINGS)
        assert len(everything(reopened)) == count
        reopened.close()


def test_a_crash_leaves_nothing_behind_the_last_record(tmp_path: Path) -> None:
    """D5: room is not bytes; the log goes on where it was, and gives the room back when sealed."""
    with disk(tmp_path) as data:
        log = data.log(SETTINGS)
        grown(log, LARGE + 5000)
        count = log.end_offset
        crash(log)
        log = data.log(SETTINGS)
        assert log.end_offset == count
        while len(log.segments) == 1:
            append(log, batch(b"x" * 1000))
        assert room(log.segments[0].path) < AHEAD
        assert len(everything(log)) == log.end_offset
        log.close()


def test_a_file_system_without_room_ahead_is_written_to_as_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D2: it is asked once for each segment."""
    asked: list[int] = []

    def refuse(fd: int, position: int, size: int) -> bool:
        asked.append(position)
        return False

    monkeypatch.setattr(files, "reserve", refuse)
    with disk(tmp_path) as data:
        log = data.log(SETTINGS)
        grown(log, LARGE + 20_000)
        assert len(asked) == 1
        assert len(everything(log)) == log.end_offset
        log.close()
