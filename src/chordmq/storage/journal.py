"""A journal that small flushes of many logs share, so that one sync of the disk serves them all.

Two files are written in turn, each from its beginning, and again when the logs have in their own
files what it holds. They are full of zeros when they are made: what is written later changes bytes
and nothing else, so that the file system has no size and no place to note when it is synced.

A round, all numbers big-endian, is `magic:4 checksum:4 key:8 size:4 number:8 parts:4`, then for
each part `name_size:2 base_offset:8 position:8 size:4 name`, then the bytes of all parts. The
checksum (CRC-32C) covers what follows it, the size what follows the number of parts. The key is
random, made anew with the files: what a client has written into them is never taken for a round.
"""

import errno
import os
import struct
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from chordmq.errors import StorageFailed
from chordmq.logs import get_logger
from chordmq.records.checksum import crc32c
from chordmq.storage import files
from chordmq.storage.flush import Share
from chordmq.storage.metadata.segments import SegmentCatalogue
from chordmq.storage.segment import LOG_SUFFIX, path_of

log = get_logger(__name__)

NAMES = ("journal.0", "journal.1")
HALF_BYTES = 8 << 20
"""Of each of the two files."""
_MAGIC = b"CMQJ"
_HEAD = struct.Struct(">4sI8sIQI")
_PART = struct.Struct(">HQQI")
_CHECKSUM = struct.Struct(">I")
_CHECKED = struct.Struct(">8sIQI")
_CHECKED_FROM = _HEAD.size - _CHECKED.size
_KEY_SIZE = 8
_ZEROS = 1 << 20
_THREADS = 8
"""How many logs are brought to the disk at once after a crash."""


class Part(NamedTuple):
    """What a round holds of one log."""

    name: str
    base_offset: int
    """Of the segment in whose file the bytes belong."""
    position: int
    data: bytes


class Round(NamedTuple):
    """One write to the journal, carried out in any thread; one at a time."""

    number: int
    fd: int
    position: int
    key: bytes
    parts: list[Part]

    def write(self) -> None:
        """Block until the disk has it; a failed write is final, and the journal is of no more use.

        Nothing is lost then: what it was to hold lies in the files of the logs, which can be
        flushed themselves.
        """
        data = encoded(self.key, self.number, self.parts)
        if os.pwritev(self.fd, [data], self.position, os.RWF_DSYNC) < len(data):
            raise OSError(errno.ENOSPC, "the journal was written in part only")


class Journal:
    """The two files, which are written to one round at a time."""

    def __init__(self, directory: Path, next_round: int, half_bytes: int = HALF_BYTES) -> None:
        self.next_round = next_round
        """The number of the next round; all that were ever written have lower ones."""
        self._directory = directory
        self._half_bytes = half_bytes
        self._key = os.urandom(_KEY_SIZE)
        self._fds: list[int] = []
        self._half = 0
        self._position = 0
        self.is_open = False
        """Whether rounds can be written."""

    def open(self) -> None:
        """Make the files; blocks until the disk has them."""
        assert not self._fds, "it would forget what it holds"
        fds: list[int] = []
        try:
            for name in NAMES:
                flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
                fds.append(os.open(self._directory / name, flags, 0o644))
                zeros = memoryview(bytes(_ZEROS))
                for at in range(0, self._half_bytes, _ZEROS):
                    _write_all(fds[-1], zeros[: self._half_bytes - at], at)
                os.fsync(fds[-1])
            files.sync(self._directory)
        except OSError as error:
            for fd in fds:
                os.close(fd)
            self._remove()
            raise files.write_fault(self._directory / NAMES[0], error) from error
        self._fds, self.is_open = fds, True

    def begin(self, shares: Sequence[Share]) -> "Round | None":
        """Return a round with these shares, or None if the file has no room for it."""
        parts = [Part(one.name, one.active.base_offset, one.position, one.data) for one in shares]
        end = self._position + _HEAD.size + sum(map(_size, parts))
        if end > self._half_bytes:
            return None
        begun = Round(self.next_round, self._fds[self._half], self._position, self._key, parts)
        self.next_round += 1
        self._position = end
        return begun

    def turn(self) -> None:
        """Go on with the other file, whose rounds nobody needs any more."""
        self._half, self._position = 1 - self._half, 0

    def close(self) -> None:
        """Remove the files; all logs must have been saved."""
        self.let_go()
        self._remove()

    def let_go(self) -> None:
        """Close the files and leave them to the next start."""
        for fd in self._fds:
            os.close(fd)
        self._fds, self.is_open = [], False

    def _remove(self) -> None:
        for name in NAMES:
            (self._directory / name).unlink(missing_ok=True)


def encoded(key: bytes, number: int, parts: Sequence[Part]) -> bytes:
    """Return a round as it is written."""
    heads = [
        _PART.pack(len(part.name), part.base_offset, part.position, len(part.data))
        + part.name.encode("ascii")
        for part in parts
    ]
    body = b"".join([*heads, *(part.data for part in parts)])
    checked = _CHECKED.pack(key, len(body), number, len(parts))
    return b"".join([_MAGIC, _CHECKSUM.pack(crc32c(body, crc32c(checked))), checked, body])


def _size(part: Part) -> int:
    return _PART.size + len(part.name) + len(part.data)


def rounds(data: bytes) -> Iterator[tuple[int, list[Part]]]:
    """Yield number and parts of the rounds that a file begins with, each following the last."""
    view, position = memoryview(data), 0
    expected: tuple[bytes, int] | None = None
    while position + _HEAD.size <= len(data):
        magic, checksum, key, size, number, count = _HEAD.unpack_from(data, position)
        start, end = position + _HEAD.size, position + _HEAD.size + size
        if magic != _MAGIC or end > len(data) or expected not in (None, (key, number)):
            return
        if crc32c(view[position + _CHECKED_FROM : end]) != checksum:
            return
        yield number, _parts(view[start:end], count)
        position, expected = end, (key, number + 1)


def _parts(view: memoryview, count: int) -> list[Part]:
    heads, at = [], 0
    for _ in range(count):
        name_size, base_offset, position, size = _PART.unpack_from(view, at)
        at += _PART.size
        heads.append((str(view[at : at + name_size], "utf-8"), base_offset, position, size))
        at += name_size
    parts = []
    for name, base_offset, position, size in heads:
        parts.append(Part(name, base_offset, position, bytes(view[at : at + size])))
        at += size
    return parts


def opened(
    directory: Path, logs: Path, catalogue: SegmentCatalogue, half_bytes: int = HALF_BYTES
) -> Journal:
    """Return a journal, after what an old one holds was brought into the files of the logs.

    To be called before a log is opened; blocks.
    """
    valid_from = catalogue.journal_rounds()
    newest = max(valid_from.values(), default=0)
    halves = [
        found
        for path in (directory / name for name in NAMES)
        if path.exists() and (found := list(rounds(path.read_bytes())))
    ]
    redone: dict[str, list[Part]] = {}
    for number, parts in (one for half in sorted(halves) for one in half):
        newest = max(newest, number)
        for part in parts:
            if number >= valid_from.get(part.name, number + 1):
                redone.setdefault(part.name, []).append(part)
    if redone:
        with ThreadPoolExecutor(_THREADS) as pool:
            mended = sum(pool.map(lambda one: _redo(logs / one[0], one[1]), redone.items()))
        log.info("journal redone", logs=len(redone), bytes_mended=mended)
    if any((directory / name).exists() for name in NAMES):
        for name in NAMES:
            (directory / name).unlink(missing_ok=True)
        files.sync(directory)
    return Journal(directory, newest + 1, half_bytes)


def _redo(directory: Path, parts: Sequence[Part]) -> int:
    """Bring parts into the files of one log, and to the disk; return how many bytes were not."""
    mended = 0
    by_segment: dict[int, list[Part]] = {}
    for part in parts:
        by_segment.setdefault(part.base_offset, []).append(part)
    for base_offset, written in by_segment.items():
        path = path_of(directory, base_offset, LOG_SUFFIX)
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # retention has taken it since
        try:
            for part in written:
                if os.pread(fd, len(part.data), part.position) != part.data:
                    mended += len(part.data)
                # Also if it can be read: a page that the disk has refused seems to be there.
                _write_all(fd, part.data, part.position)
            os.fdatasync(fd)
        except OSError as error:
            raise StorageFailed(f"cannot redo what the journal has of {path}: {error}") from error
        finally:
            os.close(fd)
    return mended


def _write_all(fd: int, data: bytes | memoryview, position: int) -> None:
    """Write all, by several calls where one does not do."""
    rest = memoryview(data)
    while rest:
        written = os.pwrite(fd, rest, position)
        position, rest = position + written, rest[written:]
