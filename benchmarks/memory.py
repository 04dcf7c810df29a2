"""Leaves a machine no memory that nobody has used, as on one that has served for a day.

There, what programs do not need is page cache, and what a broker appends takes the place of what
nobody reads. A new virtual machine instead gets each page from its host when it is first touched,
and may give back what is freed (`python -m benchmarks.pages` measures what that costs). Whoever
writes first after a removal would then get memory that costs nothing, and whoever comes later not.

Some hosts also have a machine let go of page cache that nobody has read for a while, tens of
megabytes a second, so it is filled anew before each case.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SPARE = 128 << 20
"""Bytes that stay free, about as many as Linux keeps free itself."""
FILLED_MAX = 64 << 30
_PIECE = 1 << 20


class PageCache:
    """A file without content, which is read until it fills the memory that is free."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def fill(self, free: int | None = None) -> int:
        """Read as much of the file as there is free memory; return how many bytes that was."""
        if free is None:
            free = free_memory()
        wanted = min(free - SPARE, FILLED_MAX)
        if wanted < _PIECE:
            return 0
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            # What was read before may be there still: only what is new takes free memory for sure.
            start = os.fstat(descriptor).st_size
            os.ftruncate(descriptor, start + wanted)
            buffer = [bytearray(_PIECE)]
            for position in range(start, start + wanted, _PIECE):
                os.preadv(descriptor, buffer, position)
        finally:
            os.close(descriptor)
        return wanted


@contextmanager
def page_cache(path: Path) -> Iterator[PageCache]:
    """Give a page cache to fill, and free it at the end."""
    try:
        yield PageCache(path)
    finally:
        path.unlink(missing_ok=True)


def free_memory() -> int:
    """Return the bytes of memory that neither programs nor files use."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemFree:"):
            return int(line.split()[1]) << 10
    return 0
