"""Records that only the disk has: whoever wants them waits, and nobody else."""

import asyncio
import errno
import os

import pytest

from chordmq.broker.broker import Broker
from chordmq.broker.partition import Partition
from chordmq.broker.settings import BrokerSettings
from chordmq.codecs.kafka import schema
from chordmq.codecs.kafka.messages.fetch import FetchResponse
from chordmq.fronts.kafka.call import KafkaFront
from chordmq.records.record import read_records
from tests.cold_disk import Disk
from tests.fronts.kafka.wire import (
    FETCH_VERSION,
    HEAD_SIZE,
    Wire,
    answered,
    connected,
    fetch,
    produce,
)

LONG_MS = 60_000


@pytest.fixture
def settings() -> BrokerSettings:
    """Give a node that keeps no records in memory."""
    return BrokerSettings(node_id=7, log_memory_max_bytes=0)


async def values(wire: Wire) -> list[bytes | None]:
    answer = schema.decode(FetchResponse, FETCH_VERSION, await wire.receive(), HEAD_SIZE)
    [row] = answer.responses[0].partitions
    assert not row.error_code
    return [record.value for record in read_records(memoryview(row.records or b""))]


async def written(front: KafkaFront, value: bytes) -> None:
    async with connected(front) as wire:
        await wire.send(produce("t", value))
        assert (await answered(wire))[0] == 0


async def waiting(broker: Broker) -> None:
    while not broker.shared.read_ahead.fetched:  # noqa: ASYNC110 - nobody says when
        await asyncio.sleep(0)


async def test_others_are_served_while_a_consumer_waits_for_the_disk(
    broker: Broker, front: KafkaFront, partition: Partition, disk: Disk
) -> None:
    """D2, C12: what is written meanwhile does not make the node wait for the disk, either."""
    await written(front, b"old")
    async with connected(front) as wire:
        await wire.send(fetch("t", max_wait_ms=LONG_MS))
        await waiting(broker)
        await written(front, b"new")
        await written(front, b"newer")
        assert broker.shared.read_ahead.fetched == 1
        disk.may_go_on.set()
        assert await values(wire) == [b"old"]


async def test_consumers_of_the_same_records_wait_together(
    broker: Broker, front: KafkaFront, partition: Partition, disk: Disk
) -> None:
    """D2: the disk is asked once."""
    await written(front, b"old")
    async with connected(front) as one, connected(front) as other:
        await one.send(fetch("t", max_wait_ms=LONG_MS))
        await waiting(broker)
        await other.send(fetch("t", max_wait_ms=LONG_MS))
        await written(front, b"new")  # so that the node has the other's request, too
        disk.may_go_on.set()
        assert await values(one) == await values(other) == [b"old"]
    assert broker.shared.read_ahead.fetched == 1


async def test_records_that_do_not_stay_in_memory_are_read_all_the_same(
    broker: Broker, front: KafkaFront, partition: Partition, disk: Disk
) -> None:
    """D2: where memory is short, waiting again and again would take for ever."""
    disk.forgets = True
    disk.may_go_on.set()
    await written(front, b"old")
    async with connected(front) as wire:
        await wire.send(fetch("t", max_wait_ms=LONG_MS))
        assert await values(wire) == [b"old"]
    assert broker.shared.read_ahead.fetched == 1


async def test_records_are_read_at_once_if_no_descriptor_is_left_for_a_thread(
    broker: Broker,
    front: KafkaFront,
    partition: Partition,
    disk: Disk,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """C11: a node that is short of descriptors serves its clients all the same."""
    await written(front, b"old")

    def scarce(_: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "dup", scarce)
    async with connected(front) as wire:
        await wire.send(fetch("t", max_wait_ms=LONG_MS))
        assert await values(wire) == [b"old"]
    assert not broker.shared.read_ahead.fetched


async def test_a_client_that_waits_for_nothing_is_answered_with_records(
    broker: Broker, front: KafkaFront, partition: Partition, disk: Disk
) -> None:
    """C1: an empty answer would tell it that there are none."""
    await written(front, b"old")
    async with connected(front) as wire:
        await wire.send(fetch("t", max_wait_ms=0))
        assert await values(wire) == [b"old"]
    assert not broker.shared.read_ahead.fetched


async def test_records_that_the_page_cache_was_told_to_drop_are_delivered(
    front: KafkaFront, partition: Partition
) -> None:
    """D2: with the real kernel, whatever it has dropped."""
    await written(front, b"old")
    with partition.log.segments[0].opened() as fd:
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    async with connected(front) as wire:
        await wire.send(fetch("t", max_wait_ms=LONG_MS))
        assert await values(wire) == [b"old"]
