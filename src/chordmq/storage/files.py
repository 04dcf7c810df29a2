"""Files that survive a power cut: whole replacement, synced names, and errors by their fault."""

import errno
import os
from pathlib import Path

from chordmq.errors import ChordMQError, DiskFull, StorageFailed

PARTIAL_SUFFIX = ".tmp"
_FULL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))


def replace(path: Path, content: bytes) -> None:
    """Put a file in place so that after a power cut it is either the old one or the new one."""
    partial = path.with_name(path.name + PARTIAL_SUFFIX)
    fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(fd, view) :]
        os.fdatasync(fd)
    finally:
        os.close(fd)
    partial.rename(path)
    sync(path.parent)


def make_directory(path: Path) -> None:
    """Make a directory and those above it, unless it is there, so that they survive a power cut."""
    if not path.exists():
        make_directory(path.parent)
        path.mkdir(exist_ok=True)
        sync(path.parent)


def sync(path: Path) -> None:
    """Wait until the disk has the file, or the names in the directory."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_fault(path: Path, error: OSError) -> ChordMQError:
    """Return the error that a failed write means to a client."""
    if error.errno in _FULL:
        return DiskFull(f"no room to write {path}: {os.strerror(error.errno or 0)}")
    return StorageFailed(f"cannot write {path}: {error}")
