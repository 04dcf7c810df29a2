"""Keeps a second node out of a data directory."""

from pathlib import Path

from chordmq.errors import CannotStart
from chordmq.locks import FileLock

NAME = "node.lock"


class DirectoryLock:
    """The one node that may use a data directory."""

    def __init__(self, directory: Path) -> None:
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._lock = FileLock(directory / NAME)
        except OSError as error:
            raise CannotStart(
                f"The data directory {directory} cannot be used: {error.strerror}."
            ) from None
        if not self._lock.take():
            holder = self._lock.holder
            self._lock.release()
            raise CannotStart(
                f"Another node (process {holder}) uses the data directory "
                f"{directory}. Stop it, or give this one another directory with data_dir."
            )

    def release(self) -> None:
        """Let another node use the directory."""
        self._lock.release()
