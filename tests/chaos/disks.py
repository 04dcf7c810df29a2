"""A disk of its own for each node, that can lose power and fill up; needs root and loop devices."""

import fcntl
import os
import struct
import subprocess
from contextlib import suppress
from pathlib import Path

SIZE = 512 * 1024 * 1024
SPARED = 8 * 1024 * 1024
BLOCK = 64 * 1024
SHUTDOWN = 0x8004587D
WITHOUT_FLUSHING = 2


class Disk:
    """An ext4 in a file, mounted; what was not flushed when the power goes is gone."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._image = directory.with_suffix(".img")
        self._filler = directory / "filler"
        self._device = ""

    def make(self) -> None:
        """Make the disk and mount it."""
        self.directory.mkdir(parents=True)
        with self._image.open("wb") as image:
            image.truncate(SIZE)
        self._run("mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=1", str(self._image))
        self._device = self._run("losetup", "-f", "--show", str(self._image))
        self._mount()

    def cut_power(self) -> None:
        """Let nothing reach the disk any more; who writes gets errors."""
        opened = os.open(self.directory, os.O_RDONLY)
        try:
            fcntl.ioctl(opened, SHUTDOWN, struct.pack("I", WITHOUT_FLUSHING))
        finally:
            os.close(opened)

    def restore_power(self) -> None:
        """Mount the disk again, with what had reached it; nobody may use it meanwhile."""
        self._run("umount", str(self.directory))
        self._mount()

    def fill(self) -> None:
        """Leave no room."""
        room = os.statvfs(self.directory)
        with self._filler.open("wb", buffering=0) as filler, suppress(OSError):
            os.posix_fallocate(filler.fileno(), 0, room.f_bavail * room.f_frsize - SPARED)
            filler.seek(0, os.SEEK_END)
            while True:
                filler.write(bytes(BLOCK))

    def empty(self) -> None:
        """Give the room back."""
        self._filler.unlink(missing_ok=True)

    def close(self) -> None:
        """Take the disk away, as far as it is there."""
        subprocess.run(["umount", "-l", str(self.directory)], capture_output=True, check=False)
        if self._device:
            subprocess.run(["losetup", "-d", self._device], capture_output=True, check=False)

    def _mount(self) -> None:
        self._run("mount", self._device, str(self.directory))

    def _run(self, *command: str) -> str:
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return done.stdout.strip()
