"""Looks after the logs in the background: retention, checkpoints, compaction, scrub, disk space."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path

from chordmq.broker.partition import Partition
from chordmq.broker.settings import BrokerSettings
from chordmq.broker.shared import Shared
from chordmq.errors import ChordMQError
from chordmq.logs import get_logger
from chordmq.storage.disk_space import DiskWatch, Space, SpaceLimits
from chordmq.storage.scrub import Scrub

log = get_logger(__name__)

PARTITIONS_AT_ONCE = 32
DISK_INTERVAL_S = 1.0


class Upkeep:
    """Visits every partition now and then; each visit is short, and clients are served between."""

    def __init__(
        self,
        directory: Path,
        partitions: Callable[[], Iterator[Partition]],
        settings: BrokerSettings,
        shared: Shared,
    ) -> None:
        self._partitions = partitions
        self._settings = settings
        self._shared = shared
        self.disk = DiskWatch(
            directory,
            SpaceLimits(
                warn_bytes=settings.disk_free_warn_bytes,
                warn_share=1.0,
                stop_bytes=settings.disk_free_stop_bytes,
                stop_share=1.0,
            ),
        )
        self.scrub = Scrub(
            lambda: [partition.log for partition in partitions()],
            settings.log_scrub_bytes_per_second,
        )

    async def run(self) -> None:
        """Do all of it until cancelled."""
        self.look_at_disk()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._every(DISK_INTERVAL_S, self._look_at_disk))
            interval_s = self._settings.log_retention_check_interval_ms / 1000
            tasks.create_task(self._every(interval_s, self.visit_all))
            backoff_s = self._settings.log_cleaner_backoff_ms / 1000
            tasks.create_task(self._every(backoff_s, self.compact_all))
            tasks.create_task(self.scrub.run())

    async def _every(
        self, interval_s: float, work: Callable[[], Coroutine[None, None, None]]
    ) -> None:
        while True:
            await asyncio.sleep(interval_s)
            await work()

    async def visit_all(self) -> None:
        """Apply retention and have every log checkpointed."""
        now_ms = self._shared.clock.now_ms()
        for number, partition in enumerate(list(self._partitions())):
            if number % PARTITIONS_AT_ONCE == 0:
                await asyncio.sleep(0)
            if not partition.is_closed:
                try:
                    await self._visit(partition, now_ms)
                except (ChordMQError, OSError) as error:
                    log.error("upkeep failed", partition=partition.log.name, error=str(error))

    async def _visit(self, partition: Partition, now_ms: int) -> None:
        partition.producers.expire(now_ms, self._settings.producer_id_expiration_ms)
        await partition.save_producers()  # before retention takes batches that it speaks of
        if not partition.is_closed:
            partition.log.maintain(partition.high_watermark)
            self._shared.flusher.request(partition)

    async def compact_all(self) -> None:
        """Compact the logs that need it, one after the other, on a thread."""
        for partition in list(self._partitions()):
            if partition.settings.is_compacted and not partition.is_closed:
                try:
                    await self._compact(partition)
                except (ChordMQError, OSError) as error:
                    log.error("compaction failed", partition=partition.log.name, error=str(error))

    async def _compact(self, partition: Partition) -> None:
        compaction = partition.begin_compaction()
        if compaction is None:
            return
        before = partition.log.size
        while swap := await asyncio.to_thread(compaction.next):
            if partition.is_closed:
                return
            partition.log.swap(swap)
        partition.log.finish_compaction(compaction)
        self._shared.flusher.request(partition)
        log.info("compacted", partition=partition.log.name, before=before, after=partition.log.size)

    def look_at_disk(self) -> None:
        """Refuse writes while the disk is almost full."""
        watch = self.disk
        if watch.look() is Space.FULL:
            self._shared.full = (
                f"the disk has {watch.free_bytes} bytes left, writes stop below "
                f"disk.free.stop.bytes={self._settings.disk_free_stop_bytes}; free some space"
            )
        else:
            self._shared.full = ""

    async def _look_at_disk(self) -> None:
        self.look_at_disk()
