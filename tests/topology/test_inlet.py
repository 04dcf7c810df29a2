"""Where pipes end: each record is stored once and in order, whichever way it comes."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chordmq.broker.broker import Broker
from chordmq.broker.flusher import Flusher
from chordmq.broker.settings import BrokerSettings
from chordmq.clock import SystemClock
from chordmq.errors import BatchTooLarge, CorruptBatch
from chordmq.records.batch import COMPRESSION_MASK, walk
from chordmq.records.compression import Compression
from chordmq.records.origin import cluster_number, origin_id
from chordmq.records.record import NewRecord, Record, build_batch, read_records
from chordmq.topology.inlet import Inlet

ROOT = origin_id("root", "01234567")
OWN = cluster_number("me")


def opened(directory: Path) -> Broker:
    return Broker(directory, BrokerSettings(), SystemClock(), Flusher())


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    broker = opened(tmp_path / "data")
    for name in ("orders", "relay", "other"):
        await broker.topics.create(name, 1)
    yield broker
    broker.close()


def batch(first: int, count: int, compression: Compression = Compression.NONE) -> bytearray:
    records = [NewRecord(1, None, b"%d" % n, (("h", b"x"),)) for n in range(first, first + count)]
    return build_batch(records, base_offset=first, compression=compression)


def inlet(broker: Broker, topic: str = "orders", own: int = OWN) -> Inlet:
    return Inlet(broker.partition(topic, 0), own)


def raw(broker: Broker, topic: str = "orders") -> bytearray:
    return bytearray(b"".join(broker.partition(topic, 0).log.read(0, 1 << 24)))


def stored(broker: Broker, topic: str = "orders") -> list[Record]:
    data = memoryview(raw(broker, topic))
    return [r for at, h in walk(data) for r in read_records(data[at : at + h.size])]


def values(broker: Broker, topic: str = "orders") -> list[bytes | None]:
    return [record.value for record in stored(broker, topic)]


def numbers(stop: int) -> list[bytes]:
    return [b"%d" % number for number in range(stop)]


async def test_batches_that_overlap_are_stored_once(broker: Broker) -> None:
    """D12: what comes again after a broken answer is left out, also a part of a batch."""
    here = inlet(broker)
    assert await here.take(ROOT, batch(0, 3) + batch(3, 2)) == 5
    assert await here.take(ROOT, batch(3, 2) + batch(4, 3)) == 2
    assert values(broker) == numbers(7)
    assert (here.records, here.repeated) == (7, 3)
    assert await here.known() == {ROOT: 7}


async def test_a_copy_keeps_the_record_as_it_was(broker: Broker) -> None:
    """D12: batches keep compression, times and headers; no record is touched."""
    sent = batch(0, 50, Compression.ZSTD) + batch(50, 50)
    await inlet(broker).take(ROOT, bytearray(sent))
    view = memoryview(raw(broker))
    found = [header.attributes & COMPRESSION_MASK for _, header in walk(view)]
    assert found == [Compression.ZSTD, Compression.NONE]
    assert stored(broker) == read_records(batch(0, 50)) + read_records(batch(50, 50))


async def test_what_is_here_already_does_not_come_again_from_another_parent(
    broker: Broker,
) -> None:
    """D12: fail-over without repetition: the other parent has offsets of its own."""
    await broker.append_records("relay", 0, [NewRecord(1, None, b"local")])
    await inlet(broker, "relay", own=0).take(ROOT, batch(0, 3) + batch(3, 3))
    here = inlet(broker)
    await here.take(ROOT, batch(0, 3))
    relay = origin_id("x", "ffff")
    await here.take(relay, raw(broker, "relay"))
    assert values(broker) == [*numbers(3), b"local", *numbers(6)[3:]]
    assert await here.known() == {ROOT: 6, relay: 1}


async def test_what_was_written_here_does_not_come_back(broker: Broker) -> None:
    """D12: loop prevention between nodes that copy each other."""
    mine = origin_id("me", "aa")
    await inlet(broker, "relay", own=0).take(mine, batch(0, 2))
    here = inlet(broker)
    assert await here.take(ROOT, raw(broker, "relay")) == 0
    assert not stored(broker)


async def test_a_topic_that_was_made_anew_is_another_source(broker: Broker) -> None:
    here = inlet(broker)
    await here.take(ROOT, batch(0, 2))
    await here.take(origin_id("root", "ffff"), batch(0, 3))
    assert values(broker) == [b"0", b"1", b"0", b"1", b"2"]


async def test_a_restart_finds_in_the_log_what_it_has(tmp_path: Path) -> None:
    """D12: what is here is known from the same append as the data."""
    first = opened(tmp_path / "data")
    await first.topics.create("orders", 1)
    await inlet(first).take(ROOT, batch(0, 5))
    await first.append_records("orders", 0, [NewRecord(1, None, b"local")] * 1000)
    first.close()
    second = opened(tmp_path / "data")
    here = inlet(second)
    assert await here.known() == {ROOT: 5}
    assert await here.take(ROOT, batch(0, 6)) == 6 - 5
    second.close()


async def test_what_could_not_be_stored_is_taken_again(broker: Broker) -> None:
    """D12: a failure in the middle of an answer neither loses nor repeats."""
    here = inlet(broker)
    big = build_batch([NewRecord(1, None, bytes(2_000_000))], base_offset=3)
    with pytest.raises(BatchTooLarge):
        await here.take(ROOT, batch(0, 3) + big)
    assert await here.known() == {ROOT: 3}
    await here.take(ROOT, batch(2, 4))
    assert values(broker) == numbers(6)


async def test_a_batch_that_was_damaged_on_its_way_is_not_stored(broker: Broker) -> None:
    """D4: a wrong checksum is not made right by the copy."""
    damaged = batch(0, 3)
    damaged[-1] ^= 1
    with pytest.raises(CorruptBatch):
        await inlet(broker).take(ROOT, damaged)
    assert not stored(broker)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9))))
async def test_overlapping_reads_add_up_to_the_origin(
    tmp_path_factory: pytest.TempPathFactory, reads: list[tuple[int, int]]
) -> None:
    """D12: whatever is read again, each record is stored once and in order."""
    broker = opened(tmp_path_factory.mktemp("data"))
    await broker.topics.create("orders", 1)
    here, end = inlet(broker), 0
    for back, count in reads:
        # A parent is asked from where the last record is or before: never beyond a gap.
        start = max(0, end - back)
        await here.take(ROOT, batch(start, count))
        end = max(end, start + count)
    assert values(broker) == numbers(end)
    broker.close()
