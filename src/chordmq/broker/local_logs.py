"""The directories of partitions on this node: put away, and removed when nobody needs them."""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from chordmq.broker.partition import Partition
from chordmq.errors import StorageFailed
from chordmq.logs import get_logger
from chordmq.storage.directories import (
    partition_directory,
    remove_set_aside,
    set_aside,
    set_aside_strays,
)
from chordmq.storage.metadata.held import HeldRow, HeldTable

DISK_THREADS = 8
"""How many partitions are recovered or saved at once, so that they share the disk's syncs."""

log = get_logger(__name__)


class LocalLogs:
    """What may lie on the disk; a row says so before it does, and until it does not any more."""

    def __init__(self, directory: Path, held: HeldTable) -> None:
        self._directory = directory
        self._held = held
        self._removals: asyncio.Queue[list[HeldRow]] = asyncio.Queue()
        directory.mkdir(parents=True, exist_ok=True)

    def put_away(self, wanted: Collection[HeldRow]) -> None:
        """Rename all directories but those of these partitions; blocks, for the start."""
        held = self._held.rows()
        kept = {(row.name, row.partition) for row in held if row in wanted}
        gone: dict[bytes, list[HeldRow]] = {}
        for row in held:
            if row not in wanted:
                gone.setdefault(row.topic, []).append(row)
                # With a namesake there, the rename was done before the namesake was made.
                if (row.name, row.partition) not in kept:
                    set_aside(self._directory, row.name, [row.partition], row.topic)
        for removed in gone.values():
            self._removals.put_nowait(removed)
        known = {partition_directory(self._directory, name, index) for name, index in kept}
        for stray in set_aside_strays(self._directory, known):
            log.warning("partition of no known topic put aside", directory=stray.name)
        self._held.add_now(sorted(wanted))

    def check_free(self, topic: str, partitions: Iterable[int]) -> None:
        """Refuse to begin partitions with files that are there already."""
        for index in partitions:
            directory = partition_directory(self._directory, topic, index)
            if directory.exists():
                raise StorageFailed(f"{directory.name} was left over and is in the way; try again")

    async def discard(self, gone: Iterable[HeldRow]) -> None:
        """Rename the directories of closed partitions of one topic, to be removed in time."""
        rows = list(gone)
        first, indexes = rows[0], [row.partition for row in rows]
        await asyncio.to_thread(set_aside, self._directory, first.name, indexes, first.topic)
        self._removals.put_nowait(rows)

    async def run(self) -> None:
        """Remove what was renamed, until cancelled."""
        while True:
            rows = await self._removals.get()
            try:
                await asyncio.to_thread(remove_set_aside, self._directory, rows[0].topic)
                await self._held.remove(row for row in rows if not self._is_back(row))
            except (OSError, StorageFailed) as error:  # the next start tries again
                log.error("files of a deleted topic stay", topic=rows[0].name, error=str(error))
            self._removals.task_done()

    async def removed(self) -> None:
        """Wait until all that was renamed is gone."""
        await self._removals.join()

    def _is_back(self, row: HeldRow) -> bool:
        """Return whether the partition was given to this node again meanwhile."""
        return partition_directory(self._directory, row.name, row.partition).exists()


def close_all(partitions: Sequence[Partition]) -> None:
    """Store what a restart needs of partitions, and close them; blocks."""
    with ThreadPoolExecutor(DISK_THREADS) as pool:
        for saving in [pool.submit(partition.save) for partition in partitions]:
            saving.result()
    for partition in partitions:
        partition.close()
