"""Where pipes end: data and position are one append, and a restart finds both."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from chordmq.broker.broker import Broker
from chordmq.broker.flusher import Flusher
from chordmq.broker.settings import BrokerSettings
from chordmq.clock import SystemClock
from chordmq.errors import BatchTooLarge
from chordmq.records.batch import COMPRESSION_MASK, walk
from chordmq.records.compression import Compression
from chordmq.records.record import NewRecord, build_batch, read_records
from chordmq.topology.inlet import Inlet, read_progress
from chordmq.topology.pipe import Progress, source_of

SOURCE = source_of("root", "01234567")


def opened(directory: Path) -> Broker:
    return Broker(directory, BrokerSettings(), SystemClock(), Flusher())


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    broker = opened(tmp_path / "data")
    await broker.topics.create("orders", 1)
    yield broker
    broker.close()


def batch(first: int, count: int, compression: Compression = Compression.NONE) -> bytes:
    records = [NewRecord(1, None, b"%d" % n) for n in range(first, first + count)]
    return bytes(build_batch(records, base_offset=first, compression=compression))


def stored(broker: Broker) -> list[bytes | None]:
    log = broker.partition("orders", 0).log
    found: list[bytes | None] = []
    for buffer in log.read(0, 1 << 24):
        for at, header in walk(buffer):
            found += [one.value for one in read_records(buffer[at : at + header.size])]
    return found


def numbers(stop: int) -> list[bytes]:
    return [b"%d" % number for number in range(stop)]


async def test_batches_that_overlap_are_stored_once(broker: Broker) -> None:
    """D12: what comes again after a broken answer is left out."""
    inlet = Inlet(broker.partition("orders", 0), None)
    assert await inlet.take(SOURCE, "me", batch(0, 3) + batch(3, 2), 5) == 5
    assert await inlet.take(SOURCE, "me", batch(3, 4), 7) == 2
    assert stored(broker) == numbers(7)
    assert (inlet.records, inlet.repeated) == (7, 2)


async def test_compression_is_that_of_the_source(broker: Broker) -> None:
    """D12: batches keep the compression in which they are stored."""
    inlet = Inlet(broker.partition("orders", 0), None)
    await inlet.take(SOURCE, "me", batch(0, 50, Compression.ZSTD) + batch(50, 50), 100)
    (buffer,) = [b"".join(broker.partition("orders", 0).log.read(0, 1 << 20))]
    found = [header.attributes & COMPRESSION_MASK for _, header in walk(memoryview(buffer))]
    assert found == [Compression.ZSTD, Compression.NONE]
    assert stored(broker) == numbers(100)


async def test_a_restart_finds_its_place_in_the_log(tmp_path: Path) -> None:
    """D12: the position lies in the same append as the data, behind whatever else was written."""
    first = opened(tmp_path / "data")
    await first.topics.create("orders", 1)
    inlet = Inlet(first.partition("orders", 0), None)
    await inlet.take(SOURCE, "me", batch(0, 5), 9)
    for _ in range(3):
        await first.append_records("orders", 0, [NewRecord(1, None, b"local")] * 1000)
    first.close()
    second = opened(tmp_path / "data")
    found = read_progress(second.partition("orders", 0))
    assert found == Progress({SOURCE: 5}, {SOURCE: 4})
    second.close()


async def test_an_empty_log_goes_on_from_what_was_kept_beside_it(broker: Broker) -> None:
    """D12: retention may take the records that carry the position."""
    kept = Progress({SOURCE: 5}, {SOURCE: 4})
    inlet = Inlet(broker.partition("orders", 0), kept)
    assert inlet.known is None
    await inlet.take(SOURCE, "me", batch(3, 4), 7)
    assert stored(broker) == [b"5", b"6"]
    assert inlet.known == Progress({SOURCE: 7}, {SOURCE: 6})


async def test_what_could_not_be_stored_is_taken_again(broker: Broker) -> None:
    """D12: a failure in the middle of an answer neither loses nor repeats."""
    inlet = Inlet(broker.partition("orders", 0), None)
    big = build_batch([NewRecord(1, None, bytes(2_000_000))], base_offset=3)
    with pytest.raises(BatchTooLarge):
        await inlet.take(SOURCE, "me", batch(0, 3) + bytes(big), 4)
    assert inlet.progress == Progress({SOURCE: 3}, {SOURCE: 2})
    await inlet.take(SOURCE, "me", batch(2, 4), 6)
    assert stored(broker) == numbers(6)
