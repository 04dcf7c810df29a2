"""The leader-epoch checkpoint: which leader epoch each range of offsets was written in.

The file is text, one line `epoch offset` per epoch in order, then one line with the CRC-32C of
the lines above in hexadecimal. It is replaced as a whole, and only when an epoch begins.
"""

from bisect import bisect_right
from pathlib import Path

from chordmq.records.checksum import crc32c
from chordmq.storage import files

FILE_NAME = "leader-epoch-checkpoint"
NO_EPOCH = -1


class BrokenEpochs(Exception):
    """The checkpoint is missing or fails its checksum; it is rebuilt from the log."""


class Epochs:
    """Leader epochs and the offset at which each began; both only grow."""

    __slots__ = ("_epochs", "_starts")

    def __init__(self) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []

    @property
    def latest(self) -> int:
        """Return the newest epoch, or -1 when nothing was ever written."""
        return self._epochs[-1] if self._epochs else NO_EPOCH

    def begin(self, epoch: int, offset: int) -> None:
        """Note that `epoch` begins at `offset`."""
        assert epoch > self.latest
        self._epochs.append(epoch)
        self._starts.append(offset)

    def at(self, offset: int) -> int:
        """Return the epoch in which the offset was written."""
        found = bisect_right(self._starts, offset)
        return self._epochs[found - 1] if found else -1

    def end_of(self, epoch: int, log_end: int) -> tuple[int, int]:
        """Return the largest epoch at or below `epoch` and the offset at which it ends.

        (-1, -1) says that the log knows no such epoch (KIP-320).
        """
        found = bisect_right(self._epochs, epoch)
        if not found:
            return -1, -1
        end = self._starts[found] if found < len(self._starts) else log_end
        return self._epochs[found - 1], end

    def cut(self, end_offset: int) -> None:
        """Forget the epochs that began at or after `end_offset`."""
        while self._starts and self._starts[-1] >= end_offset:
            self._starts.pop()
            self._epochs.pop()

    def forget_before(self, offset: int) -> None:
        """Forget the epochs that ended at or before `offset`."""
        while len(self._starts) > 1 and self._starts[1] <= offset:
            del self._starts[0], self._epochs[0]

    def copy(self) -> "Epochs":
        """Return a copy that does not change, for another thread."""
        copy = Epochs()
        copy._epochs, copy._starts = self._epochs[:], self._starts[:]
        return copy

    def dump(self) -> bytes:
        """Return the checkpoint file's content."""
        lines = [
            f"{epoch} {start}\n" for epoch, start in zip(self._epochs, self._starts, strict=True)
        ]
        body = "".join(lines).encode()
        return body + f"{crc32c(body):08x}\n".encode()

    @classmethod
    def load(cls, directory: Path) -> "Epochs":
        """Read the checkpoint back; raise BrokenEpochs if it cannot be trusted."""
        try:
            content = (directory / FILE_NAME).read_bytes()
        except FileNotFoundError as missing:
            raise BrokenEpochs("there is no leader-epoch checkpoint") from missing
        body, checksum = content[:-9], content[-9:]
        if checksum != f"{crc32c(body):08x}\n".encode():
            raise BrokenEpochs("the leader-epoch checkpoint fails its checksum")
        epochs = cls()
        for line in body.decode().splitlines():
            epoch, start = line.split()
            epochs.begin(int(epoch), int(start))
        return epochs


def save(directory: Path, content: bytes) -> None:
    """Replace the checkpoint file, and wait until the disk has it."""
    files.replace(directory / FILE_NAME, content)


def is_saved(directory: Path, epochs: Epochs) -> bool:
    """Return whether the checkpoint file says the same; that of an empty log need not be there."""
    try:
        return (directory / FILE_NAME).read_bytes() == epochs.dump()
    except FileNotFoundError:
        return epochs.latest == NO_EPOCH
