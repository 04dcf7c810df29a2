"""Looks after the logs in the background: retention, checkpoints, producers' snapshots."""

import asyncio
from collections.abc import Callable, Iterator

from chordmq.broker.partition import Partition, Shared
from chordmq.broker.settings import BrokerSettings

INTERVAL_S = 10.0
PARTITIONS_AT_ONCE = 32


class Upkeep:
    """Visits every partition now and then; each visit is short, and clients are served between."""

    def __init__(
        self,
        partitions: Callable[[], Iterator[Partition]],
        settings: Callable[[], BrokerSettings],
        shared: Shared,
    ) -> None:
        self._partitions = partitions
        self._settings = settings
        self._shared = shared

    async def run(self) -> None:
        """Go round for ever."""
        while True:
            await asyncio.sleep(INTERVAL_S)
            await self.visit_all()

    async def visit_all(self) -> None:
        """Visit each partition once."""
        oldest_ms = self._shared.clock.now_ms() - self._settings().producer_id_expiration_ms
        for number, partition in enumerate(list(self._partitions())):
            if number % PARTITIONS_AT_ONCE == 0:
                await asyncio.sleep(0)
            if not partition.is_closed:
                partition.log.maintain()
                self._shared.flusher.request(partition)
                partition.producers.expire(oldest_ms)
                await partition.save_producers()
