"""The scrub: reads sealed segments again at a bounded rate, and reports what the disk spoiled."""

import asyncio
from collections.abc import Callable, Iterable, Iterator

from chordmq.errors import ChordMQError
from chordmq.records.batch import BatchHeader
from chordmq.storage.log import Log
from chordmq.storage.segment import Segment

STEP_BYTES = 1 << 20
PAUSE_S = 600.0
"""Rest after each round, so that a node with little data is not read all the time."""


class Scrub:
    """Goes through the sealed segments of all logs, over and over."""

    def __init__(self, logs: Callable[[], Iterable[Log]], bytes_per_s: int) -> None:
        self._logs = logs
        self._bytes_per_s = bytes_per_s
        self.bytes_checked = 0
        self.rounds = 0

    async def run(self) -> None:
        """Scrub until cancelled."""
        while True:
            await self.round()
            await asyncio.sleep(PAUSE_S)

    async def round(self) -> None:
        """Check each sealed segment once."""
        for log in list(self._logs()):
            for segment in log.segments[:-1]:
                if segment.fd is None:
                    await self._check(log, segment)
        self.rounds += 1

    async def _check(self, log: Log, segment: Segment) -> None:
        scan = log.check(segment)
        try:
            while size := await asyncio.to_thread(_step, scan):
                self.bytes_checked += size
                await asyncio.sleep(size / self._bytes_per_s)
        except ChordMQError as fault:
            if segment in log.segments:  # else it was deleted or replaced meanwhile
                log.report(fault)


def _step(scan: Iterator[tuple[int, BatchHeader, memoryview]]) -> int:
    """Check some more batches, and return how many bytes they had."""
    size = 0
    for _, header, _ in scan:
        size += header.size
        if size >= STEP_BYTES:
            break
    return size
