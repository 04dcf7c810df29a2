"""Interceptors: what they may do to records on the way in and out, and what they may not."""

import asyncio
from pathlib import Path

import pytest

from chordmq.broker.broker import Broker
from chordmq.broker.flusher import Flusher
from chordmq.broker.interceptors import Interceptors
from chordmq.broker.settings import BrokerSettings
from chordmq.clock import SystemClock
from chordmq.errors import CorruptBatch, PolicyViolation
from chordmq.records.batch import TRANSACTIONAL, read_header
from chordmq.records.compression import Compression
from chordmq.records.record import NewRecord, Record, build_batch, read_records
from tests.broker.test_extensions import Silent


class Shout(Silent):
    def on_publish(self, topic: str, records: list[NewRecord]) -> list[NewRecord]:
        return [one._replace(value=(one.value or b"").upper()) for one in records]


class Swallow(Silent):
    def on_publish(self, topic: str, records: list[NewRecord]) -> list[NewRecord]:
        return records[1:]


class Crash(Silent):
    def on_publish(self, topic: str, records: list[NewRecord]) -> list[NewRecord]:
        raise ZeroDivisionError


RECORDS = [NewRecord(5, b"k", b"one"), NewRecord(9, None, b"two", (("h", b"v"),))]
BATCH = build_batch(
    RECORDS, compression=Compression.GZIP, flags=TRANSACTIONAL, producer_id=7, epoch=2, sequence=40
)


def test_a_changed_batch_keeps_its_producer_transaction_and_compression() -> None:
    changed = Interceptors({"shout": Shout({})}).publish("t", memoryview(BATCH))
    before, after = read_header(BATCH), read_header(changed)
    assert [record.value for record in read_records(changed)] == [b"ONE", b"TWO"]
    for name in ("attributes", "producer_id", "producer_epoch", "base_sequence", "max_timestamp"):
        assert getattr(before, name) == getattr(after, name)


def test_a_batch_that_nobody_changes_stays_the_very_same_bytes() -> None:
    data = memoryview(BATCH)
    assert Interceptors({"silent": Silent({})}).publish("t", data) is data


def test_the_brokers_own_topics_are_not_shown() -> None:
    data = memoryview(BATCH)
    assert Interceptors({"crash": Crash({})}).publish("__audit", data) is data


@pytest.mark.parametrize("one", [Swallow({}), Crash({})])
def test_an_interceptor_that_fails_or_loses_records_refuses_the_batch(one: Silent) -> None:
    with pytest.raises(PolicyViolation, match="interceptor one"):
        Interceptors({"one": one}).publish("t", memoryview(BATCH))


class Whisper(Silent):
    def on_deliver(self, topic: str, partition: int, records: list[Record]) -> list[Record]:
        return [one._replace(value=b"...") for one in records]


class Hide(Silent):
    def on_deliver(self, topic: str, partition: int, records: list[Record]) -> list[Record]:
        return []


async def test_records_are_changed_as_they_are_handed_out_and_not_in_the_log(
    tmp_path: Path,
) -> None:
    """A11: on deliver, for the fronts that do not hand out batches as stored."""
    broker = Broker(tmp_path, BrokerSettings(), SystemClock(), Flusher())
    try:
        await broker.topics.create("t", 1)
        partition = broker.partition("t", 0)
        partition.append(memoryview(build_batch([NewRecord(0, b"k", b"secret")])))
        await asyncio.sleep(0)
        broker.shared.deliver = Interceptors({"whisper": Whisper({})}).deliver
        stored = read_records(partition.log.read(0, 1000)[0])
        (shown,) = partition.delivered(stored)
        assert (stored[0].value, shown.value) == (b"secret", b"...")
        broker.shared.deliver = Interceptors({"hide": Hide({})}).deliver
        with pytest.raises(PolicyViolation, match="interceptor hide"):
            partition.delivered(stored)
    finally:
        broker.close()


def test_a_damaged_batch_is_refused_and_not_given_a_good_checksum() -> None:
    damaged = bytearray(BATCH)
    damaged[-1] ^= 1
    with pytest.raises(CorruptBatch):
        Interceptors({"shout": Shout({})}).publish("t", memoryview(damaged))
