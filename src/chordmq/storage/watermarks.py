"""How far the copies of this node were committed, kept over restarts in one small file.

The file is text: one line `topic id, index, offset` per partition, then one line with the CRC-32C
of the lines above in hexadecimal. It may be old: what it says was committed, and more may be now.
"""

from collections.abc import Mapping
from pathlib import Path

from chordmq.records.checksum import crc32c
from chordmq.storage import files

FILE_NAME = "high-watermarks"
CHECKSUM_SIZE = 9

Place = tuple[bytes, int]
"""A topic's id and the index of one of its partitions."""


def save(directory: Path, watermarks: Mapping[Place, int]) -> None:
    """Replace the file, and wait until the disk has it."""
    lines = (f"{topic.hex()} {index} {offset}\n" for (topic, index), offset in watermarks.items())
    body = "".join(lines).encode()
    files.replace(directory / FILE_NAME, body + f"{crc32c(body):08x}\n".encode())


def load(directory: Path) -> dict[Place, int]:
    """Return what was saved; nothing if there is no file or it fails its checksum."""
    try:
        content = (directory / FILE_NAME).read_bytes()
    except FileNotFoundError:
        return {}
    body, checksum = content[:-CHECKSUM_SIZE], content[-CHECKSUM_SIZE:]
    if checksum != f"{crc32c(body):08x}\n".encode():
        return {}
    rows = (line.split() for line in body.decode().splitlines())
    return {(bytes.fromhex(topic), int(index)): int(offset) for topic, index, offset in rows}
