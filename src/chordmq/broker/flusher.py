"""Group commit: one flush of a log serves every write that arrived before it began."""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from chordmq.logs import get_logger
from chordmq.storage.log import Flush, Log

log = get_logger(__name__)

THREADS = 4
RETRY_S = 0.1
EXIT_STORAGE_FAILED = 74


def exit_at_once(error: BaseException) -> None:
    """End the process: after a failed flush nobody knows what is on the disk.

    The kernel may report the next flush as done although the data of the failed one is gone, so
    flushing again would acknowledge what is lost. Recovery at the next start reads the truth.
    """
    log.critical("flush failed, the node stops so that nothing is acknowledged", error=str(error))
    os._exit(EXIT_STORAGE_FAILED)


class Flushable(Protocol):
    """A partition, as the flusher sees it."""

    log: Log

    def flushed(self) -> None:
        """Take note that the log's flushed offset has moved."""
        ...


class Flusher:
    """Runs the flushes of all partitions on a few threads; the event loop never waits for one."""

    def __init__(self, failed: Callable[[BaseException], None] = exit_at_once) -> None:
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="flush")
        self._failed = failed
        self._waiting: dict[Flushable, None] = {}
        self._under_way: set[Flushable] = set()
        self._ends: dict[Flushable, asyncio.Future[None]] = {}
        self._free_threads = THREADS
        self._scheduled = False
        self.flushes = 0

    def request(self, partition: Flushable) -> None:
        """Have everything written so far to the partition flushed soon."""
        if partition in self._waiting:
            return
        self._waiting[partition] = None
        if not self._scheduled and partition not in self._under_way:
            self._scheduled = True
            # All partitions written in this turn of the loop share the next round.
            asyncio.get_running_loop().call_soon(self._start)

    def _start(self) -> None:
        self._scheduled = False
        ready = [p for p in self._waiting if p not in self._under_way]
        if not ready or not self._free_threads:
            return
        share = -(-len(ready) // self._free_threads)
        loop = asyncio.get_running_loop()
        for first in range(0, len(ready), share):
            work: list[tuple[Flushable, Flush]] = []
            for partition in ready[first : first + share]:
                flush = self._begin(partition)
                if flush is not None:
                    self._under_way.add(partition)
                    work.append((partition, flush))
            if work:
                self._free_threads -= 1
                self.flushes += len(work)
                self._pool.submit(self._sync, loop, work)

    def _begin(self, partition: Flushable) -> Flush | None:
        """Return what is to be flushed, or None; without a free descriptor it has to wait."""
        del self._waiting[partition]
        try:
            return partition.log.begin_flush()
        except OSError as error:
            log.error("flush put off", log=partition.log.name, error=str(error))
            self._waiting[partition] = None
            asyncio.get_running_loop().call_later(RETRY_S, self._start)
            return None

    def _sync(self, loop: asyncio.AbstractEventLoop, work: list[tuple[Flushable, Flush]]) -> None:
        """Flush on a thread of the pool, then report to the loop."""
        error: BaseException | None = None
        try:
            for _, flush in work:
                flush.sync()
        except Exception as failure:  # noqa: BLE001 - whatever it was, nobody must wait for ever
            error = failure
        loop.call_soon_threadsafe(self._finish, work, error)

    def _finish(self, work: list[tuple[Flushable, Flush]], error: BaseException | None) -> None:
        self._free_threads += 1
        for partition, flush in work:
            self._under_way.discard(partition)
            ended = self._ends.pop(partition, None)
            if ended is not None:
                ended.set_result(None)
            if error is None:
                partition.log.finish_flush(flush)
                partition.flushed()
        if error is not None:
            self._failed(error)
        self._start()

    async def finished(self, partition: Flushable) -> None:
        """Wait until no flush of the partition is under way; begin none for it any more."""
        self._waiting.pop(partition, None)
        if partition in self._under_way:
            if partition not in self._ends:
                self._ends[partition] = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._ends[partition])
            self._waiting.pop(partition, None)

    def close(self) -> None:
        """Wait for the flushes under way; what they report is no longer handled."""
        self._pool.shutdown(wait=True)
