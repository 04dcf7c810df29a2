"""The end of a partition that is followed: what comes goes on at once, and piles up nowhere."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from chordmq.broker.broker import Broker
from chordmq.broker.flusher import Flusher
from chordmq.broker.partition import Partition
from chordmq.broker.settings import BrokerSettings
from chordmq.clock import SystemClock
from chordmq.fronts.mqtt import tails
from chordmq.fronts.mqtt.letters import Bundle
from chordmq.fronts.mqtt.mapping import Parcel
from chordmq.fronts.mqtt.tails import Tail
from chordmq.records.record import NewRecord, build_batch

BATCHES = 50
EACH = 100


class Followed:
    """A partition that somebody follows, and what he has heard."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.heard: list[bytes] = []
        self._has_heard = asyncio.Event()
        self.tail = Tail(partition, partition.high_watermark, self._hear)

    def _hear(self, parcels: list[Parcel | Bundle]) -> None:
        for parcel in parcels:
            assert isinstance(parcel, Parcel)
            self.heard += parcel.payloads
        self._has_heard.set()

    def publish(self, *payloads: bytes, is_ours: bool = True) -> None:
        """Append messages of this front, or of another."""
        now_ms = SystemClock().now_ms()
        records = [NewRecord(now_ms, None, payload) for payload in payloads]
        appended = self.partition.append(memoryview(build_batch(records)))
        if is_ours:
            parcel = Parcel("a/b", b"\0\3a/b", list(payloads), 0)
            self.tail.expect(appended.base_offset, [parcel])

    async def all_of(self, count: int) -> list[bytes]:
        """Wait for so many messages."""
        async with asyncio.timeout(60):
            while len(self.heard) < count:
                self._has_heard.clear()
                await self._has_heard.wait()
        return self.heard


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    broker = Broker(tmp_path, BrokerSettings(), SystemClock(), Flusher())
    yield broker
    broker.close()


async def followed(broker: Broker, flush: str) -> Followed:
    await broker.topics.create("a.b", 1, settings={"flush": flush})
    follower = Followed(broker.partition("a.b", 0))
    await asyncio.sleep(0)  # it waits at the end of the partition now
    return follower


def numbered(first: int) -> list[bytes]:
    return [b"%06d" % number for number in range(first, first + EACH)]


async def test_all_that_one_turn_has_brought_is_handed_on_in_the_next(broker: Broker) -> None:
    """E14: else a fast client's messages would pile up, since each turn brings as many again."""
    here = await followed(broker, "os")
    for batch in range(BATCHES):
        here.publish(*numbered(batch * EACH))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(here.heard) == BATCHES * EACH


async def test_what_waits_for_the_disk_is_kept_up_to_a_limit_and_then_read(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C11: memory is bounded however long a commit takes, and nothing is lost or out of order."""
    monkeypatch.setattr(tails, "OWN_BYTES_MAX", 3_000)
    here = await followed(broker, "disk")
    kept = []
    for batch in range(BATCHES):
        here.publish(*numbered(batch * EACH))
        kept.append(here.tail._own_bytes)
    assert max(kept) < 3_000 + EACH * 6
    found = await here.all_of(BATCHES * EACH)
    assert found == [b"%06d" % number for number in range(BATCHES * EACH)]
    assert here.tail._own_bytes == 0


async def test_messages_of_other_fronts_come_between_ours_in_order(broker: Broker) -> None:
    """X1: what another front has appended is read from the log, in its place."""
    here = await followed(broker, "os")
    for batch in range(BATCHES):
        here.publish(*numbered(batch * EACH), is_ours=batch % 3 != 0)
    found = await here.all_of(BATCHES * EACH)
    assert found == [b"%06d" % number for number in range(BATCHES * EACH)]
    assert here.tail._own_bytes == 0
