"""A benchmark begins when the disk has finished what the one before has left."""

from pathlib import Path

import pytest

from benchmarks import settle

SLOW_S, QUICK_S = 0.5, 0.001


class Disk:
    """Takes a given time for each flush, and stands still in between."""

    def __init__(self, *flushes_s: float) -> None:
        self.left = list(flushes_s)
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def fsync(self, _: int) -> None:
        self.now_s += self.left.pop(0)

    def sync(self) -> None:
        pass


def settled(disk: Disk, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settle, "time", disk)
    monkeypatch.setattr(settle, "os", disk)
    settle.settle(directory)
    assert list(directory.iterdir()) == []


def test_it_waits_until_several_flushes_in_a_row_are_quick(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C16: otherwise a broker would start while the disk works on what another has left."""
    quick = [QUICK_S] * settle.QUICK_IN_A_ROW
    disk = Disk(SLOW_S, QUICK_S, SLOW_S, *quick, QUICK_S)
    settled(disk, tmp_path, monkeypatch)
    assert disk.left == [QUICK_S]


def test_it_does_not_wait_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C16: some disks are slow."""
    disk = Disk(*[SLOW_S] * 1_000)
    settled(disk, tmp_path, monkeypatch)
    assert disk.now_s == pytest.approx(settle.WAIT_MAX_S, abs=SLOW_S)
