"""Compaction: rewrites sealed segments with only the newest record of each key.

A group of neighbouring segments becomes one, in steps that a crash may part anywhere:

    1. the kept batches are written to `<base>.cleaned` and synced
    2. it is renamed to `<base>.<next offset>.swap` and the directory synced: the point of no return
    3. the group's old files are removed
    4. the swap file is renamed to `<base>.log`

Opening a log removes `.cleaned` files and carries out steps 3 and 4 for `.swap` files.
"""

from pathlib import Path

from chordmq.storage import files
from chordmq.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, path_of

CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"


def finish_swaps(directory: Path) -> None:
    """Bring what compaction left behind to its end, or away."""
    for path in directory.glob(f"*{CLEANED_SUFFIX}"):
        path.unlink()
    for path in sorted(directory.glob(f"*{SWAP_SUFFIX}")):
        finish_swap(path)


def discard(directory: Path) -> None:
    """Remove what compaction has ready, because the log was cut below it."""
    for path in (*directory.glob(f"*{CLEANED_SUFFIX}"), *directory.glob(f"*{SWAP_SUFFIX}")):
        path.unlink()


def finish_swap(path: Path) -> None:
    """Put a swap file in the place of the segments that it replaces."""
    base, following = (int(part) for part in path.stem.split("."))
    for old in log_files(path.parent):
        if base <= int(old.stem) < following:
            for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, LOG_SUFFIX):
                old.with_suffix(suffix).unlink(missing_ok=True)
    path.rename(path_of(path.parent, base, LOG_SUFFIX))
    files.sync(path.parent)


def log_files(directory: Path) -> list[Path]:
    """Return the log files of a directory."""
    return [path for path in directory.glob(f"*{LOG_SUFFIX}") if path.stem.isdigit()]
