"""Proves that high watermarks survive a restart, and that a broken file is worth nothing."""

from pathlib import Path

from chordmq.storage import watermarks

ONE, TWO = (b"0123456789abcdef", 0), (b"fedcba9876543210", 12)


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    watermarks.save(tmp_path, {ONE: 5})
    watermarks.save(tmp_path, {ONE: 7, TWO: 2**40})
    assert watermarks.load(tmp_path) == {ONE: 7, TWO: 2**40}


def test_nothing_is_loaded_from_no_file_or_a_broken_one(tmp_path: Path) -> None:
    assert watermarks.load(tmp_path) == {}
    watermarks.save(tmp_path, {ONE: 7})
    file = tmp_path / watermarks.FILE_NAME
    file.write_bytes(file.read_bytes().replace(b" 7\n", b" 8\n"))
    assert watermarks.load(tmp_path) == {}
