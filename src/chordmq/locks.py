"""Locks between processes, on files."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


class FileLock:
    """A lock that the operating system drops when its holder ends, however it ends.

    The file holds the process id of the holder, for people; the lock is on the file itself.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def take(self, *, wait: bool = False) -> bool:
        """Take the lock; say whether it is ours, which is sure after waiting."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            return False
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)
        return True

    @property
    def holder(self) -> str:
        """Return the process that took the lock last."""
        return os.pread(self._file, 32, 0).decode(errors="replace").strip() or "unknown"

    def release(self) -> None:
        """Let another take the lock; this one is of no use any more."""
        os.close(self._file)


@contextmanager
def locked(path: Path, tell: Callable[[str], None] = lambda _: None) -> Iterator[None]:
    """Hold the lock on a file within a block; `tell` hears whom it has to wait for."""
    lock = FileLock(path)
    try:
        if not lock.take():
            tell(f"waiting for process {lock.holder}, which holds {path}")
            lock.take(wait=True)
        yield
    finally:
        lock.release()
