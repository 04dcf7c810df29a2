"""The directories of partitions: their names, and what becomes of those nobody owns.

<topic>-<partition>                  a partition's log
<topic>-<partition>.<id>-delete      of a deleted topic, waiting to be removed
<topic>-<partition>.<id>-stray       of no topic the database knows; kept for a person to look at
"""

import os
import re
import uuid
from collections.abc import Collection, Iterable
from pathlib import Path

# With index, id and suffix the name must stay below the 255 bytes that file systems allow.
_NAME_KEPT = 200
_PARTITION = re.compile(r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<index>[0-9]{1,10})")


def partition_directory(root: Path, topic: str, index: int) -> Path:
    """Return where the log of a partition lies."""
    return root / f"{topic}-{index}"


def set_aside(root: Path, topic: str, partitions: Iterable[int], topic_id: bytes) -> None:
    """Rename the directories of deleted partitions, durably, so that their names are free again."""
    for index in partitions:
        directory = partition_directory(root, topic, index)
        if directory.exists():
            directory.rename(root / _aside(directory.name, topic_id.hex(), "delete"))
    _sync(root)


def set_aside_strays(root: Path, known: Collection[Path]) -> list[Path]:
    """Rename the partition directories that are not `known`, and return their new names.

    Deleting them could destroy everything if the database alone was lost; leaving them would let a
    new topic of the same name begin with foreign records.
    """
    moved = []
    for directory in sorted(root.iterdir()):
        if directory.is_dir() and directory not in known and _PARTITION.fullmatch(directory.name):
            target = root / _aside(directory.name, uuid.uuid4().hex, "stray")
            directory.rename(target)
            moved.append(target)
    if moved:
        _sync(root)
    return moved


def remove_set_aside(root: Path, topic_id: bytes) -> None:
    """Delete the directories that `set_aside` renamed for this topic."""
    import shutil  # which loads four libraries of compression

    for directory in root.glob(f"*.{topic_id.hex()}-delete"):
        shutil.rmtree(directory)


def _aside(name: str, topic_id: str, why: str) -> str:
    topic, index = name.rsplit("-", 1)
    return f"{topic[:_NAME_KEPT]}-{index}.{topic_id}-{why}"


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
