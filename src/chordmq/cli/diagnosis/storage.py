"""Checks of where the node keeps its data: room, kind of disk, permissions, traces of a crash."""

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from chordmq.cli.diagnosis.finding import FAIL, OK, WARN, Finding, Place
from chordmq.config import listeners

FREE_BYTES_GOOD = 10 * 1024**3
FREE_BYTES_MIN = 1024**3
FORGETFUL = ("tmpfs", "ramfs", "overlay")
REMOTE = ("nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs")


def existing(path: Path) -> Path:
    """Return the path, or the nearest directory above it that is there."""
    absolute = path.absolute()
    return next(parent for parent in [absolute, *absolute.parents] if parent.exists())


def data_directory(place: Place) -> Iterator[Finding]:
    """Check that the data directory can be written and has room."""
    path = place.config.data_dir.absolute()
    there = existing(path)
    if not there.is_dir():
        yield Finding("data directory", FAIL, f"{there} is a file", "choose another --data-dir")
        return
    try:
        with tempfile.NamedTemporaryFile(dir=there, prefix=".chordmq-doctor-") as probe:
            probe.write(b"probe")
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as error:
        fix = f"chown or chmod {there}, or choose another --data-dir"
        yield Finding("data directory", FAIL, f"{there}: {error.strerror}", fix)
        return
    yield Finding("data directory", OK, f"{path} is writable")
    free = shutil.disk_usage(there).free
    detail = f"{free / 1024**3:.1f} GiB free"
    fix = "free some space, or keep less: retention.bytes, retention.ms"
    if free >= FREE_BYTES_GOOD:
        yield Finding("disk space", OK, detail)
    else:
        yield Finding("disk space", WARN if free >= FREE_BYTES_MIN else FAIL, detail, fix)


def file_system(place: Place) -> Iterator[Finding]:
    """Check that the data directory is on a disk of this machine."""
    there = existing(place.config.data_dir)
    mounts = [line.split() for line in place.kernel("proc/mounts").splitlines()]
    above = [row for row in mounts if there.is_relative_to(row[1].replace("\\040", " "))]
    if not above:
        return
    kind = max(above, key=lambda row: len(row[1]))[2]
    if kind in FORGETFUL:
        fix = "put data_dir on a disk or a volume"
        yield Finding("file system", WARN, f"{kind}: data is gone after a restart", fix)
    elif kind in REMOTE:
        fix = "put data_dir on a disk of this machine; copies belong on other nodes"
        detail = f"{kind}: locks and flushes of remote disks are not to be relied on"
        yield Finding("file system", WARN, detail, fix)
    else:
        yield Finding("file system", OK, kind)


def permissions(place: Place) -> Iterator[Finding]:
    """Check that others can neither change the data nor read private keys."""
    data = place.config.data_dir
    if data.is_dir():
        facts = data.stat()
        if facts.st_mode & stat.S_IWOTH:
            fix = f"chmod o-w {data}"
            yield Finding("permissions", FAIL, f"everybody may write to {data}", fix)
        if facts.st_uid != os.geteuid():
            fix = f"run the node as the owner, or chown -R {os.geteuid()} {data}"
            yield Finding("permissions", WARN, f"{data} belongs to user {facts.st_uid}", fix)
    for key in sorted({one.tls.key for one in listeners(place.config).values() if one.tls.key}):
        if Path(key).exists() and Path(key).stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
            yield Finding("permissions", WARN, f"others may read {key}", f"chmod 600 {key}")


def last_stop(place: Place) -> Iterator[Finding]:
    """Look for traces of a node that did not stop in order, or of a disk that failed."""
    data = place.config.data_dir
    if not (data / "meta.db").exists() or _is_in_use(data):
        return
    if (data / "flush.failed").exists():
        fix = "look at the kernel's log (dmesg) and the disk's health before you start the node"
        yield Finding("last stop", FAIL, "the disk failed to store what it was told to", fix)
    wal = data / "meta.db-wal"
    if wal.exists() and wal.stat().st_size:
        fix = "nothing is lost; the next start takes longer. Stop nodes with SIGTERM"
        yield Finding("last stop", WARN, "the node was killed, or the machine went down", fix)
    kept = [*data.glob("topics/*/*.lost"), *data.glob("topics/*-stray")]
    if kept:
        fix = "see docs/data_dir.md; remove them when nobody needs them"
        detail = f"{len(kept)} files were set aside, such as {kept[0]}"
        yield Finding("last stop", WARN, detail, fix)


def _is_in_use(data: Path) -> bool:
    """Say whether a node runs on the directory."""
    try:
        with (data / "node.lock").open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False
