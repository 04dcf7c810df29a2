"""A real broker behind the HTTP routes, called without a socket in between."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from chordmq.broker.broker import Broker
from chordmq.broker.flusher import Flusher
from chordmq.broker.settings import BrokerSettings
from chordmq.clock import SystemClock
from chordmq.fronts.admin.app import Admin, application
from chordmq.fronts.admin.call import Shared
from chordmq.fronts.admin.settings import HttpSettings
from chordmq.metrics import Metrics

LIMITS = HttpSettings(body_size_max=2_000_000, batch_records_max=50, memory_max=20_000_000)


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    """Give a broker on an empty directory."""
    broker = Broker(tmp_path, BrokerSettings(num_partitions=2), SystemClock(), Flusher())
    background = asyncio.ensure_future(broker.run())
    await broker.groups.loaded.wait()
    yield broker
    background.cancel()
    await asyncio.wait([background])
    broker.close()


@pytest.fixture
def shared(broker: Broker) -> Shared:
    """Give what all requests share."""
    return Shared(broker=lambda: broker, settings=LIMITS)


@pytest.fixture
async def http(shared: Shared) -> AsyncIterator[httpx.AsyncClient]:
    """Give a client of the routes."""
    app = application(Admin(metrics=Metrics(), waiting=list, info=dict, shared=shared))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://node") as client:
        yield client
