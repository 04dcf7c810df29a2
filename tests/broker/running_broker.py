"""A broker of a test's own, without a node around it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from chordmq.broker.broker import Broker
from chordmq.broker.flusher import Flusher
from chordmq.broker.settings import BrokerSettings
from chordmq.clock import Clock

DEFAULTS = BrokerSettings()


class Waiter:
    """Notes that it was woken."""

    def __init__(self) -> None:
        self.woken = asyncio.Event()

    def wake(self) -> None:
        self.woken.set()


@asynccontextmanager
async def running(
    directory: Path, clock: Clock, settings: BrokerSettings = DEFAULTS
) -> AsyncIterator[Broker]:
    """Run a broker with loaded cursors, groups and transactions; then stop it."""
    broker = Broker(directory, settings, clock, Flusher())
    work = asyncio.ensure_future(broker.run())
    try:
        for part in (broker.cursors, broker.groups, broker.transactions):
            await part.loaded.wait()
        yield broker
    finally:
        work.cancel()
        await asyncio.wait([work])
        broker.close()
