"""What a read would have to wait for the disk for, so that somebody else can wait instead."""

import os
from contextlib import suppress

from chordmq.dataclass import dataclass

PIECE_BYTES = 128 * 1024
"""Bytes that are read at a time, into memory that is used again."""


def is_cached(fd: int, position: int) -> bool:
    """Return whether the page cache has a byte of a file, or the file system cannot say."""
    try:
        os.preadv(fd, [bytearray(1)], position, os.RWF_NOWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True  # the read itself will tell what is wrong
    return True


@dataclass(slots=True, eq=False)
class ColdRange:
    """A part of a file that is to be brought into the page cache, in any thread."""

    fd: int
    """A descriptor of its own, which outlives the log's; closed by `fetch`."""
    position: int
    size: int

    def fetch(self) -> None:
        """Block until the page cache has it; what the disk refuses, the reader is told.

        Reading has the kernel go on with what lies behind, so that the disk works while the reader
        does. Asking it to read ahead (`posix_fadvise`) has not, and took twice the processor time.
        """
        buffer = bytearray(PIECE_BYTES)
        try:
            with suppress(OSError):
                for at in range(self.position, self.position + self.size, PIECE_BYTES):
                    os.preadv(self.fd, [buffer], at)
        finally:
            os.close(self.fd)
