"""The sparse indexes: the same answers in memory and from the files."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.storage.index import START, BrokenIndex, Index, Place, SealedIndex

ENTRIES = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(0, 9)), max_size=30)


def paths(directory: Path) -> tuple[Path, Path]:
    return directory / "0.index", directory / "0.timeindex"


@given(steps=ENTRIES, offset=st.integers(0, 300), time=st.integers(0, 300))
def test_a_look_up_in_the_files_is_a_look_up_in_memory(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[int, int, int]],
    offset: int,
    time: int,
) -> None:
    """D3: both find the last entry at or before an offset, and the last one before a time."""
    index, places, latest = Index(), [(Place(0, 0), -1)], 0
    for ahead, size, later in steps:
        place = Place(places[-1][0].relative_offset + ahead, places[-1][0].position + size)
        latest += later
        index.add(*place, latest)
        places.append((place, latest))
    files = paths(tmp_path_factory.mktemp("index"))
    index.unsaved().save(*files)
    sealed = SealedIndex(*files)
    expected = [place for place, _ in places if place.relative_offset <= offset][-1]
    assert index.floor(offset) == sealed.floor(offset) == expected
    earlier = [place for place, before in places if before < time][-1]
    assert index.floor_time(time) == sealed.floor_time(time) == earlier
    loaded = Index.load(*files, log_size=1 << 20)
    assert (len(loaded), loaded.floor(offset)) == (len(steps), expected)


def test_the_files_are_as_documented(tmp_path: Path) -> None:
    """D3: docs/data_dir.md, byte by byte."""
    index = Index()
    index.add(7, 4096, 1_700_000_000_000)
    index.unsaved().save(*paths(tmp_path))
    offsets, times = (path.read_bytes() for path in paths(tmp_path))
    assert offsets.hex() == "00000007" + "00001000"
    assert times.hex() == "0000018bcfe56800" + "00000007"


def test_entries_are_added_to_those_in_the_files(tmp_path: Path) -> None:
    index = Index()
    index.add(1, 100, 5)
    index.unsaved().save(*paths(tmp_path))
    index.saved = 1
    index.add(2, 200, 6)
    index.unsaved().save(*paths(tmp_path))
    assert [SealedIndex(*paths(tmp_path)).floor(n) for n in range(4)] == [
        START,
        Place(1, 100),
        Place(2, 200),
        Place(2, 200),
    ]


def test_entries_past_the_end_of_the_log_are_not_loaded(tmp_path: Path) -> None:
    index = Index()
    index.add(1, 100, 5)
    index.add(2, 200, 6)
    index.unsaved().save(*paths(tmp_path))
    assert len(Index.load(*paths(tmp_path), log_size=200)) == 1


@pytest.mark.parametrize("damage", [b"", b"\0" * 7, b"\xff" * 8 + b"\0" * 8])
def test_files_that_can_not_be_indexes_are_refused(tmp_path: Path, damage: bytes) -> None:
    index = Index()
    index.add(1, 100, 5)
    index.add(2, 200, 6)
    index.unsaved().save(*paths(tmp_path))
    paths(tmp_path)[0].write_bytes(damage)
    with pytest.raises(BrokenIndex):
        Index.load(*paths(tmp_path), log_size=1000)
    paths(tmp_path)[0].unlink()
    with pytest.raises(BrokenIndex):
        SealedIndex(*paths(tmp_path)).floor(1)
