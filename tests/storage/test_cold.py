"""What the page cache does not have is known before it is read, and can be brought there."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from chordmq.storage.cold import PIECE_BYTES, ColdRange, is_cached

SIZE = 9 * PIECE_BYTES

Answer = Callable[..., int]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "segment"
    path.write_bytes(bytes(SIZE))
    return path


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_what_was_just_written_is_in_the_page_cache(file: Path) -> None:
    fd = os.open(file, os.O_RDONLY)
    try:
        assert is_cached(fd, 0)
        assert is_cached(fd, SIZE - 1)
        assert is_cached(fd, SIZE)
    finally:
        os.close(fd)


@pytest.mark.parametrize(
    ("refusal", "expected"), [(BlockingIOError(), False), (OSError(95, "not supported"), True)]
)
def test_a_kernel_that_cannot_say_leaves_it_to_the_read(
    file: Path, monkeypatch: pytest.MonkeyPatch, refusal: OSError, expected: bool
) -> None:
    def refuse(*_: object) -> int:
        raise refusal

    monkeypatch.setattr(os, "preadv", refuse)
    fd = os.open(file, os.O_RDONLY)
    try:
        assert is_cached(fd, 0) is expected
    finally:
        os.close(fd)


def test_a_range_is_in_the_page_cache_once_it_is_fetched(file: Path) -> None:
    """D2: whether or not the file system let go of it when it was told to."""
    fd = os.open(file, os.O_RDWR)
    try:
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        ColdRange(os.dup(fd), PIECE_BYTES, SIZE // 2).fetch()
        assert all(is_cached(fd, at) for at in range(PIECE_BYTES, PIECE_BYTES + SIZE // 2, 4096))
    finally:
        os.close(fd)


def test_a_range_gives_its_descriptor_back_even_if_the_disk_fails(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> bytes:
        raise OSError(5, "Input/output error")

    before = open_files()
    found = ColdRange(os.open(file, os.O_RDONLY), 0, SIZE)
    monkeypatch.setattr(os, "preadv", fail)
    found.fetch()
    assert open_files() == before
