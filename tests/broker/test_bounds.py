"""Where partitions begin and end, on the node that leads them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from chordmq.broker.bounds import Extent
from chordmq.broker.broker import Broker
from chordmq.broker.cursors.cursors import EARLIEST, LATEST
from chordmq.broker.flusher import Flusher
from chordmq.broker.settings import BrokerSettings
from chordmq.clock import SystemClock
from chordmq.records.record import NewRecord


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    broker = Broker(tmp_path, BrokerSettings(), SystemClock(), Flusher())
    await broker.topics.create("orders", 2)
    for time_ms in (10, 20, 30):
        await broker.append_records("orders", 0, [NewRecord(time_ms, None, b"x")])
    yield broker
    broker.close()


async def test_an_index_begins_at_an_end_or_at_the_first_record_that_is_not_older(
    broker: Broker,
) -> None:
    partitions = broker.topics.get("orders").partitions
    assert await broker.bounds.starts(partitions, EARLIEST) == {0: 0, 1: 0}
    assert await broker.bounds.starts(partitions, LATEST) == {0: 3, 1: 0}
    found = [await broker.bounds.starts(partitions, time_ms) for time_ms in (0, 20, 21, 31)]
    assert found == [{0: 0, 1: 0}, {0: 1, 1: 0}, {0: 2, 1: 0}, {0: 3, 1: 0}]


async def test_partitions_are_told_in_the_order_in_which_they_were_asked_for(
    broker: Broker,
) -> None:
    first, second = broker.topics.get("orders").partitions
    found = await broker.bounds.of([second, first])
    assert list(found) == [second, first]
    size = first.log.size
    assert found[first] == Extent(start=0, end=3, at=3, watermark=3, size=size)
    assert await broker.bounds.known([first]) == {first: found[first]}
