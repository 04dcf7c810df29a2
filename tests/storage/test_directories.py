"""Directories of partitions: names, what is put aside, and what is never touched."""

from pathlib import Path

import pytest

from chordmq.storage.directories import (
    partition_directory,
    remove_set_aside,
    set_aside,
    set_aside_strays,
)

ID = bytes(range(16))


def names(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir())


def test_a_partition_lies_in_a_directory_of_its_own(tmp_path: Path) -> None:
    assert partition_directory(tmp_path, "a-1", 3) == tmp_path / "a-1-3"


def test_a_deleted_topic_is_put_aside_and_then_removed(tmp_path: Path) -> None:
    for name in ("t-0", "t-1", "t-1-0", "tt-0"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "0.log").write_bytes(b"records")
    set_aside(tmp_path, "t", range(3), ID)
    aside = {f"t-{index}.{ID.hex()}-delete" for index in (0, 1)}
    assert set(names(tmp_path)) == {*aside, "t-1-0", "tt-0"}
    remove_set_aside(tmp_path, ID)
    remove_set_aside(tmp_path, ID)
    assert names(tmp_path) == ["t-1-0", "tt-0"]


@pytest.mark.parametrize("index", [0, 10_000])
def test_the_longest_name_stays_within_what_file_systems_allow(tmp_path: Path, index: int) -> None:
    topic = "x" * 249
    partition_directory(tmp_path, topic, index).mkdir()
    set_aside(tmp_path, topic, [index], ID)
    (name,) = names(tmp_path)
    assert name.endswith("-delete")
    assert len(name) <= 255


def test_strays_are_kept_under_another_name(tmp_path: Path) -> None:
    """D5: what the database does not know is not deleted."""
    for name in ("known-0", "known-1", "other-0"):
        (tmp_path / name).mkdir()
    (tmp_path / "other-0" / "0.log").write_bytes(b"records")
    known = {tmp_path / "known-0", tmp_path / "known-1"}
    (stray,) = set_aside_strays(tmp_path, known)
    assert (stray / "0.log").read_bytes() == b"records"
    assert names(tmp_path) == ["known-0", "known-1", stray.name]


def test_what_is_no_partition_stays_where_it_is(tmp_path: Path) -> None:
    for name in ("lost+found", "t-0.aa-delete", "t-0.aa-stray", "notes"):
        (tmp_path / name).mkdir()
    (tmp_path / "file-0").touch()
    before = names(tmp_path)
    assert set_aside_strays(tmp_path, set()) == []
    assert names(tmp_path) == before
