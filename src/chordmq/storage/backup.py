"""Copies of a data directory: taken while its node runs, checked, and put back.

A node says in one turn of its event loop how far each log has grown: that is the moment which the
backup shows, for all logs together. Segments only grow at the end, so the files can be copied
afterwards, each as far as it reached at that moment. They are first linked to names of our own,
since retention and compaction may remove them meanwhile.

    backup.json      what was copied, with sizes and checksums; written last
    data/            as in a data directory; indexes are left out, and made again at the first start
"""

import hashlib
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from chordmq.errors import ChordMQError
from chordmq.storage import files
from chordmq.storage.journal import NAMES as JOURNAL_NAMES
from chordmq.storage.segment import LOG_SUFFIX
from chordmq.storage.snapshots import SUFFIX as SNAPSHOT_SUFFIX
from chordmq.version import VERSION

MANIFEST = "backup.json"
DATA = "data"
TOPICS = "topics"
DATABASE = "meta.db"
WATERMARKS = "high-watermarks"
_STAGE = "backup.links"
_EPOCHS = "leader-epoch-checkpoint"
_TRIES = 20
_CHUNK = 1 << 20

Tell = Callable[[int, int], None]
"""Is told how many bytes of how many are done."""


class NotABackup(ChordMQError):
    """A directory holds no backup, or one that is damaged."""


class CannotBackUp(ChordMQError):
    """A directory cannot be backed up, or a backup cannot be put where it should go."""


class Position(msgspec.Struct, frozen=True):
    """How far a log has grown."""

    segment: int
    """Base offset of the segment that is written to."""
    size: int
    """Bytes of it."""
    next_offset: int


class CopiedFile(msgspec.Struct, frozen=True):
    """One file of a backup."""

    path: str
    size: int
    sha256: str
    modified_ns: int
    """Of the original: a sealed segment with the same time and size is the same."""


class Manifest(msgspec.Struct, frozen=True):
    """What a backup holds."""

    made: str
    version: str
    files: list[CopiedFile]

    @property
    def size(self) -> int:
        """Return the bytes of all files."""
        return sum(one.size for one in self.files)


def create(
    data_dir: Path,
    target: Path,
    positions: Mapping[str, Position] | None,
    *,
    previous: Path | None = None,
    tell: Tell = lambda done, total: None,
) -> Manifest:
    """Copy a data directory to a new one; without positions, nothing may be writing to it.

    Sealed segments that a previous backup has already are linked from there.
    """
    _check_source(data_dir)
    if target.exists() and any(target.iterdir()):
        raise CannotBackUp(f"{target} is not empty; name a directory of its own for each backup")
    old = {one.path: one for one in read(previous).files} if previous else {}
    (target / DATA).mkdir(parents=True, exist_ok=True)
    with _staged(data_dir, positions) as (stage, sizes):
        _copy_database(data_dir / DATABASE, stage / DATABASE)
        wanted = [*_small_files(data_dir, stage, is_stopped=positions is None), *sizes]
        total = sum(sizes.get(path, path.stat().st_size) for path in wanted)
        copied, done = [], 0
        for path in wanted:
            one = _copy(path, stage, target / DATA, sizes.get(path), (previous, old))
            copied.append(one)
            done += one.size
            tell(done, total)
    manifest = Manifest(datetime.now(UTC).isoformat(timespec="seconds"), VERSION, copied)
    files.replace(target / MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)))
    return manifest


def read(backup: Path) -> Manifest:
    """Return what a backup holds."""
    try:
        return msgspec.json.decode((backup / MANIFEST).read_bytes(), type=Manifest)
    except FileNotFoundError:
        raise NotABackup(
            f"{backup} has no {MANIFEST}: it is no backup, or not a whole one"
        ) from None
    except (OSError, msgspec.DecodeError) as error:
        raise NotABackup(f"{backup / MANIFEST} cannot be read: {error}") from error


def verify(backup: Path, tell: Tell = lambda done, total: None) -> Manifest:
    """Check every byte of a backup."""
    manifest = read(backup)
    done = 0
    for one in manifest.files:
        _check(backup, one)
        done += one.size
        tell(done, manifest.size)
    return manifest


def restore(backup: Path, data_dir: Path, tell: Tell = lambda done, total: None) -> Manifest:
    """Put a backup into a data directory that is empty, checking every byte."""
    manifest = read(backup)
    if data_dir.exists() and any(data_dir.iterdir()):
        raise CannotBackUp(f"{data_dir} is not empty; a backup is restored into a new directory")
    # Under another name until it is whole: a node must not start on half of it.
    partial = data_dir.with_name(data_dir.name + files.PARTIAL_SUFFIX)
    shutil.rmtree(partial, ignore_errors=True)
    done = 0
    for one in manifest.files:
        _check(backup, one)
        place = partial / one.path
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(backup / DATA / one.path, place)
        done += one.size
        tell(done, manifest.size)
    for folder, _, names in os.walk(partial):
        for name in names:
            files.sync(Path(folder, name))
        files.sync(Path(folder))
    if data_dir.exists():
        data_dir.rmdir()
    partial.rename(data_dir)
    files.sync(data_dir.parent)
    return manifest


def _check_source(data_dir: Path) -> None:
    if not (data_dir / DATABASE).exists():
        raise CannotBackUp(f"{data_dir} is no data directory: it has no {DATABASE}")
    if (data_dir / WATERMARKS).exists():
        raise CannotBackUp(
            f"{data_dir} belongs to a node of a cluster, whose topics and settings are in etcd. "
            "Copy the cluster's topics to another one with `chordmq mirror`, or to the archive."
        )


def _check(backup: Path, one: CopiedFile) -> None:
    path = backup / DATA / one.path
    if not path.resolve().is_relative_to((backup / DATA).resolve()):
        raise NotABackup(f"{one.path} lies outside of the backup")
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise NotABackup(f"{path} cannot be read: {error.strerror}") from error
    if found != one.sha256:
        raise NotABackup(f"{path} is damaged: its checksum is another")


@contextmanager
def _staged(
    data_dir: Path, positions: Mapping[str, Position] | None
) -> Iterator[tuple[Path, dict[Path, int]]]:
    """Give names of our own to the files of the logs, and say how much of each is wanted."""
    stage = data_dir / _STAGE
    shutil.rmtree(stage, ignore_errors=True)
    stage.mkdir()
    try:
        sizes: dict[Path, int] = {}
        for source in sorted((data_dir / TOPICS).glob("*")):
            if positions is None or source.name in positions:
                position = positions[source.name] if positions else None
                sizes |= _link_log(source, stage / TOPICS / source.name, position)
        yield stage, sizes
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _link_log(source: Path, place: Path, position: Position | None) -> dict[Path, int]:
    """Link a log's files; again, if compaction has exchanged some meanwhile."""
    for _ in range(_TRIES):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        before = _log_files(source, position)
        try:
            for name in before:
                os.link(source / name, place / name)
        except FileNotFoundError:
            continue
        if before == _log_files(source, position):
            return {
                place / name: _wanted(place / name, position)
                for name in sorted(before, key=lambda name: (name.endswith(LOG_SUFFIX), name))
            }
    raise CannotBackUp(f"{source} changes too fast; stop the node, or try again")


def _log_files(source: Path, position: Position | None) -> dict[str, int]:
    """Return the names that belong to the moment of the position, with their inodes."""
    found = {}
    for entry in os.scandir(source):
        stem, _, suffix = entry.name.partition(".")
        suffix = f".{suffix}"
        is_wanted = entry.name == _EPOCHS
        if stem.isdigit() and suffix == LOG_SUFFIX:
            is_wanted = position is None or int(stem) <= position.segment
        elif stem.isdigit() and suffix == SNAPSHOT_SUFFIX:
            is_wanted = position is None or int(stem) <= position.next_offset
        if is_wanted:
            found[entry.name] = entry.inode()
    return found


def _wanted(path: Path, position: Position | None) -> int:
    if position is not None and path.suffix == LOG_SUFFIX and int(path.stem) == position.segment:
        return position.size
    return path.stat().st_size


def _small_files(data_dir: Path, stage: Path, *, is_stopped: bool) -> list[Path]:
    """Return the database, and links to the files that prove the audit trail.

    With those of a node that has crashed goes the journal, from which the first start mends logs.
    """
    found = [stage / DATABASE]
    rest = [data_dir / name for name in JOURNAL_NAMES] if is_stopped else []
    for path in (*filter(Path.exists, rest), *sorted((data_dir / "audit").glob("*"))):
        place = stage / path.relative_to(data_dir)
        place.parent.mkdir(exist_ok=True)
        os.link(path, place)
        found.append(place)
    return found


def _copy_database(source: Path, target: Path) -> None:
    """Copy the database as one transaction, and let it forget what it knew of the files.

    The first start then reads every log from its beginning, and trusts nothing.
    """
    with (
        closing(sqlite3.connect(f"file:{source}?mode=ro", uri=True)) as original,
        closing(sqlite3.connect(target)) as copy,
    ):
        original.backup(copy)
        copy.execute("PRAGMA journal_mode=DELETE")
        copy.execute("DELETE FROM segments")
        copy.execute(
            "UPDATE logs SET flushed_segment = 0, flushed_position = 0, flushed_offset = 0"
        )
        copy.commit()


def _copy(
    path: Path,
    stage: Path,
    data: Path,
    size: int | None,
    known: tuple[Path | None, Mapping[str, CopiedFile]],
) -> CopiedFile:
    """Copy as much of a file as is wanted, or link what an earlier backup has."""
    name = path.relative_to(stage).as_posix()
    place = data / name
    place.parent.mkdir(parents=True, exist_ok=True)
    status = path.stat()
    size = status.st_size if size is None else size
    previous, old = known
    same = old.get(name)
    if (
        previous is not None
        and same is not None
        and path.suffix == LOG_SUFFIX
        and (same.size, same.modified_ns) == (size, status.st_mtime_ns)
    ):
        _check(previous, same)
        os.link(previous / DATA / name, place)
        return same
    digest, left = hashlib.sha256(), size
    with path.open("rb") as source, place.open("xb") as copy:
        while left and (chunk := source.read(min(left, _CHUNK))):
            digest.update(chunk)
            copy.write(chunk)
            left -= len(chunk)
        copy.flush()
        os.fsync(copy.fileno())
    if left:
        raise CannotBackUp(f"{path} has become shorter; stop the node, or try again")
    return CopiedFile(name, size, digest.hexdigest(), status.st_mtime_ns)
