"""A part of a snapshot that is read while changes go on."""

from chordmq.cdc.postgres.chunk import Chunk
from chordmq.cdc.postgres.pgoutput import read_visibility


def chunk() -> Chunk:
    rows = {("1",): [b"1"], ("2",): [b"2"]}
    return Chunk("public.items", rows, read_visibility("10:20:15"), 99, ("2",), False)  # type: ignore[arg-type]


def test_a_row_that_was_changed_later_is_dropped() -> None:
    found = chunk()
    found.touched(20, [("1",)])
    assert list(found.rows) == [("2",)]


def test_a_change_that_was_seen_when_the_row_was_read_changes_nothing() -> None:
    found = chunk()
    found.touched(9, [("1",)])
    assert list(found.rows) == [("1",), ("2",)]


def test_what_was_read_before_a_told_commit_could_be_seen_is_stale() -> None:
    assert chunk().is_stale([9, 15])
    assert not chunk().is_stale([9, 14])
