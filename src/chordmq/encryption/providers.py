"""Where key-encryption keys come from: `file:PATH`, a plain path, or `env:NAME`."""

import os
from collections.abc import Mapping
from pathlib import Path

from chordmq.encryption.errors import InvalidKeys, UnknownKey
from chordmq.encryption.keyring import KeyProvider, KeyRing, read_ring


class FileKeys:
    """Keys in a file, which is read again when it has changed: a rotation needs no restart."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = (0, 0)
        self._ring = KeyRing(())
        self._reload()

    @property
    def current(self) -> str:
        """Return the id of the newest key that is known."""
        return self._ring.current

    def wrap(self, data_key: bytes) -> bytes:
        """Return the data key, wrapped by the newest key."""
        self._reload()
        return self._ring.wrap(data_key)

    def unwrap(self, key_id: str, wrapped: bytes) -> bytes:
        """Return the data key, with a look at the file if its key is not known yet."""
        try:
            return self._ring.unwrap(key_id, wrapped)
        except UnknownKey:
            self._reload()
            return self._ring.unwrap(key_id, wrapped)

    def _reload(self) -> None:
        try:
            status = self._path.stat()
            seen = (status.st_mtime_ns, status.st_ino)
            if seen != self._seen:
                self._ring, self._seen = read_ring(self._path.read_bytes()), seen
        except OSError as error:
            raise InvalidKeys(f"{self._path}: {error.strerror}") from None
        except InvalidKeys as error:
            raise InvalidKeys(f"{self._path}: {error}") from None


def key_provider(text: str, environment: Mapping[str, str] = os.environ) -> KeyProvider:
    """Return the keys that a text names, or raise InvalidKeys."""
    kind, colon, name = text.partition(":")
    if colon and kind == "env":
        if name not in environment:
            raise InvalidKeys(f"the environment has no {name}")
        return read_ring(environment[name])
    return FileKeys(Path(name if colon and kind == "file" else text))


def write_ring(path: Path, ring: KeyRing, *, is_new: bool) -> None:
    """Put keys into a file that only its owner can read; a new one never replaces another."""
    if is_new and path.exists():
        raise InvalidKeys(f"{path} is there already; `chordmq keys rotate` adds a key to it")
    partial = path.with_name(path.name + ".tmp")
    try:
        partial.unlink(missing_ok=True)
        fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as out:
            out.write(ring.text())
            out.flush()
            os.fsync(fd)
        partial.rename(path)
    except OSError as error:
        raise InvalidKeys(f"{path}: {error.strerror}") from None
