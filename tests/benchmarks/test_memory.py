"""Benchmarks begin on a machine whose memory is in use, as a server's is."""

from pathlib import Path

from benchmarks.memory import SPARE, free_memory, page_cache

MIB = 1 << 20


def test_free_memory_is_filled_but_for_a_spare(tmp_path: Path) -> None:
    """C16: brokers are compared in memory that the machine has."""
    with page_cache(tmp_path / "cache") as cache:
        assert cache.fill(SPARE + 8 * MIB) == 8 * MIB
        assert (tmp_path / "cache").stat().st_size == 8 * MIB


def test_memory_that_was_freed_meanwhile_is_filled_by_another_part_of_the_file(
    tmp_path: Path,
) -> None:
    """C16: the first part may still be in memory, and reading it again would fill nothing."""
    with page_cache(tmp_path / "cache") as cache:
        cache.fill(SPARE + 8 * MIB)
        cache.fill(SPARE + 4 * MIB)
        assert (tmp_path / "cache").stat().st_size == 12 * MIB


def test_a_machine_with_little_free_memory_is_left_alone(tmp_path: Path) -> None:
    """C16: its memory is in use already."""
    with page_cache(tmp_path / "cache") as cache:
        assert cache.fill(SPARE) == 0
        assert not (tmp_path / "cache").exists()


def test_at_the_end_the_file_is_gone_and_its_memory_with_it(tmp_path: Path) -> None:
    """C16: a benchmark leaves nothing behind."""
    with page_cache(tmp_path / "cache") as cache:
        cache.fill(SPARE + 8 * MIB)
    assert list(tmp_path.iterdir()) == []


def test_the_kernel_says_how_much_memory_is_free() -> None:
    """C16: and it is more than nothing."""
    assert free_memory() > 0
