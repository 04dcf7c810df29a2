"""Keeps a second node out of a data directory."""

import fcntl
import os
from pathlib import Path

from chordmq.errors import CannotStart

NAME = "node.lock"


class DirectoryLock:
    """A lock that the operating system drops when its holder ends, however it ends.

    The file holds the process id of the holder, for people; the lock is on the file itself.
    """

    def __init__(self, directory: Path) -> None:
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._file = os.open(directory / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise CannotStart(
                f"The data directory {directory} cannot be used: {error.strerror}."
            ) from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._file, 32, 0).decode(errors="replace").strip()
            os.close(self._file)
            raise CannotStart(
                f"Another node (process {holder or 'unknown'}) uses the data directory "
                f"{directory}. Stop it, or give this one another directory with data_dir."
            ) from None
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let another node use the directory."""
        os.close(self._file)
