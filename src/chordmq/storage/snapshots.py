"""Producer snapshots: what the producers had sent before an offset, so that restart reads little.

A file `<offset, 20 digits>.snapshot` is the CRC-32C (u32, big-endian) of the bytes that follow
it; those are the broker's own and opaque here. The newest two are kept.
"""

import struct
from pathlib import Path

from chordmq.records.checksum import crc32c
from chordmq.storage import files

SUFFIX = ".snapshot"
KEPT = 2
_CRC = struct.Struct(">I")


def write(directory: Path, offset: int, data: bytes) -> None:
    """Store a snapshot so that it survives a power cut, and remove old ones."""
    path = directory / f"{offset:020d}{SUFFIX}"
    try:
        files.replace(path, _CRC.pack(crc32c(data)) + data)
    except OSError as error:
        raise files.write_fault(path, error) from error
    for old in _paths(directory)[:-KEPT]:
        old.unlink(missing_ok=True)


def newest(directory: Path, end_offset: int) -> tuple[int, bytes] | None:
    """Return (offset, bytes) of the newest sound snapshot at or before `end_offset`."""
    for path in reversed(_paths(directory)):
        offset = int(path.stem)
        content = path.read_bytes()
        data = content[_CRC.size :]
        if offset <= end_offset and content[: _CRC.size] == _CRC.pack(crc32c(data)):
            return offset, data
    return None


def cut(directory: Path, end_offset: int) -> None:
    """Remove the snapshots that speak of offsets from `end_offset` on."""
    for path in _paths(directory):
        if int(path.stem) > end_offset:
            path.unlink()


def _paths(directory: Path) -> list[Path]:
    return sorted(path for path in directory.glob(f"*{SUFFIX}") if path.stem.isdigit())
