"""The disk-space watch: two levels, by bytes and by share."""

import os
from pathlib import Path

import pytest

from chordmq.storage.disk_space import DiskWatch, Space, SpaceLimits

LIMITS = SpaceLimits(warn_bytes=20_000, warn_share=0.10, stop_bytes=5_000, stop_share=0.02)


def sized(free: int, total: int) -> os.statvfs_result:
    return os.statvfs_result((1, 1, total, free, free, 0, 0, 0, 0, 255))


@pytest.mark.parametrize(
    ("free", "total", "state"),
    [
        (50_000, 1_000_000, Space.OK),
        (19_999, 1_000_000, Space.LOW),
        (4_999, 1_000_000, Space.FULL),
        (11_000, 100_000, Space.OK),  # small disks: the share is less than the bytes
        (9_999, 100_000, Space.LOW),
        (1_999, 100_000, Space.FULL),
    ],
)
def test_the_smaller_of_bytes_and_share_decides(free: int, total: int, state: Space) -> None:
    """C11: a warning first, then writes must stop, on large and on small disks."""
    watch = DiskWatch(Path(), LIMITS, lambda _: sized(free, total))
    assert (watch.state, watch.free_bytes, watch.total_bytes) == (state, free, total)


def test_room_that_comes_back_is_noticed() -> None:
    """C11: writes may go on once there is room again."""
    free = [100, 50_000]
    watch = DiskWatch(Path(), LIMITS, lambda _: sized(free.pop(0), 1_000_000))
    assert watch.state is Space.FULL
    assert watch.look() is Space.OK


def test_a_real_disk_can_be_measured(tmp_path: Path) -> None:
    watch = DiskWatch(tmp_path)
    assert 0 < watch.free_bytes <= watch.total_bytes
