"""Small Produce requests of one turn are appended together, and each is answered by itself."""

import asyncio
import errno
import os

import pytest

from chordmq.broker.broker import Broker
from chordmq.broker.partition import Partition
from chordmq.codecs.kafka import schema
from chordmq.codecs.kafka.messages.fetch import FetchResponse
from chordmq.fronts.kafka.call import KafkaFront
from chordmq.fronts.kafka.connection import KafkaConnection
from chordmq.fronts.kafka.gathering import SMALL
from tests.fronts.kafka.wire import (
    FETCH_VERSION,
    HEAD_SIZE,
    answered,
    connected,
    fetch,
    numbered,
    produce,
    produce_batch,
    stored,
)

OUT_OF_ORDER, CORRUPT, UNKNOWN_TOPIC, STORAGE = 45, 2, 3, 56


def counted_writes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the size of each write to a file."""
    writes: list[int] = []
    write = os.write

    def counted(fd: int, data: memoryview) -> int:
        writes.append(len(data))
        return write(fd, data)

    monkeypatch.setattr(os, "write", counted)
    return writes


async def test_the_requests_of_a_turn_share_a_write(
    front: KafkaFront, partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C11: many clients with one record each cost the disk one call."""
    writes = counted_writes(monkeypatch)
    async with connected(front) as wire:
        await wire.send(b"".join(produce("t", b"%d" % number) for number in range(10)))
        answers = [await answered(wire) for _ in range(10)]
    assert answers == [(0, number) for number in range(10)]
    assert stored(partition) == [b"%d" % number for number in range(10)]
    assert len(writes) == 1


async def test_the_answers_that_a_flush_makes_ready_are_sent_together(
    broker: Broker, front: KafkaFront, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C11: ten requests under way on a connection cost one call, not ten."""
    await broker.topics.create("safe", 1, 1, {"flush": "disk"})
    sent: list[int] = []
    send = KafkaConnection._send

    def counted(connection: KafkaConnection) -> None:
        before = len(connection._answers)
        send(connection)
        sent.append(before - len(connection._answers))

    async with connected(front) as wire:
        with monkeypatch.context() as patch:
            patch.setattr(KafkaConnection, "_send", counted)
            requests = (produce("safe", b"%d" % number, acks=-1) for number in range(10))
            await wire.send(b"".join(requests))
            answers = [await answered(wire) for _ in range(10)]
    assert answers == [(0, number) for number in range(10)]
    assert sent == [10]


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("flush", ["os", "disk"])
async def test_clients_hear_of_their_own_records(
    broker: Broker, front: KafkaFront, acks: int, flush: str
) -> None:
    """C1: every client is told the offset of what it sent, whoever else sent in the same turn."""
    topic = await broker.topics.create("shared", 1, 1, {"flush": flush})

    async def client(name: str) -> None:
        async with connected(front) as wire:
            for number in range(20):
                value = f"{name} {number}".encode()
                await wire.send(produce("shared", value, acks=acks))
                code, offset = await answered(wire)
                assert code == 0
                at_offset[offset] = value

    at_offset: dict[int, bytes] = {}
    await asyncio.gather(*(client(f"client {number}") for number in range(8)))
    assert stored(topic.partitions[0]) == [at_offset[offset] for offset in range(160)]


async def test_a_bad_batch_costs_only_its_sender(front: KafkaFront, partition: Partition) -> None:
    """C15: a damaged batch and an unknown topic among sound ones of the same turn."""
    damaged = bytearray(numbered(0))
    damaged[-1] ^= 1
    async with connected(front) as wire:
        await wire.send(
            produce("t", b"first")
            + produce_batch("t", bytes(damaged))
            + produce("nowhere")
            + produce("t", b"second")
        )
        answers = [await answered(wire) for _ in range(4)]
    assert answers == [(0, 0), (CORRUPT, -1), (UNKNOWN_TOPIC, -1), (0, 1)]
    assert stored(partition) == [b"first", b"second"]


async def test_a_producers_batches_keep_their_order_in_a_turn(
    front: KafkaFront, partition: Partition
) -> None:
    """C3: five requests under way, one of them sent twice, and one that leaves a gap."""
    sent = [0, 1, 2, 2, 3, 9]
    async with connected(front) as wire:
        await wire.send(b"".join(produce_batch("t", numbered(sequence)) for sequence in sent))
        answers = [await answered(wire) for _ in sent]
    assert answers == [(0, 0), (0, 1), (0, 2), (0, 2), (0, 3), (OUT_OF_ORDER, -1)]
    assert stored(partition) == [b"0", b"1", b"2", b"3"]


async def test_a_producers_batches_of_a_turn_share_a_write(
    front: KafkaFront, partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C3: Java's producer has five requests under way; the numbers say that they follow."""
    writes = counted_writes(monkeypatch)
    async with connected(front) as wire:
        await wire.send(b"".join(produce_batch("t", numbered(sequence)) for sequence in range(5)))
        assert [await answered(wire) for _ in range(5)] == [(0, number) for number in range(5)]
    assert stored(partition) == [b"%d" % number for number in range(5)]
    assert len(writes) == 1


async def test_what_is_not_gathered_comes_behind_what_is(
    front: KafkaFront, partition: Partition
) -> None:
    """C12: a large batch, another kind of acknowledgement and a read do not overtake."""
    large = b"x" * (SMALL + 1)
    async with connected(front) as wire:
        await wire.send(
            produce("t", b"first")
            + produce("t", large)
            + produce("t", b"third", acks=1)
            + produce("t", b"fourth")
            + produce("t", b"unanswered", acks=0)
            + fetch("t", max_wait_ms=0)
        )
        assert [await answered(wire) for _ in range(4)] == [(0, number) for number in range(4)]
        frame = await wire.receive()
    answer = schema.decode(FetchResponse, FETCH_VERSION, frame, HEAD_SIZE)
    assert answer.responses[0].partitions[0].high_watermark == 5
    assert stored(partition) == [b"first", large, b"third", b"fourth", b"unanswered"]


async def test_a_full_disk_refuses_all_that_was_to_be_written_together(
    front: KafkaFront, partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C11: everyone is told, nothing is half there, and the next write is taken."""

    def refuse(fd: int, data: memoryview) -> int:
        raise OSError(errno.ENOSPC, "no space")

    requests = produce("t", b"a") + produce_batch("t", numbered(0)) + produce("t", b"b")
    async with connected(front) as wire:
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", refuse)
            await wire.send(requests)
            assert [await answered(wire) for _ in range(3)] == [(STORAGE, -1)] * 3
        assert partition.log.end_offset == 0
        await wire.send(requests)
        assert [await answered(wire) for _ in range(3)] == [(0, 0), (0, 1), (0, 2)]
    assert stored(partition) == [b"a", b"0", b"b"]


async def test_a_client_that_has_gone_does_not_hinder_the_others(
    front: KafkaFront, partition: Partition
) -> None:
    """C12: its records are in the log; nobody is there to be told."""
    async with connected(front) as wire:
        async with connected(front) as gone:
            await gone.send(produce("t", b"gone"))
        await wire.send(produce("t", b"stays"))
        code, offset = await answered(wire)
    assert code == 0
    assert stored(partition)[offset] == b"stays"


async def test_a_fault_of_the_node_ends_the_connections_it_met(
    front: KafkaFront, partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C12: nobody waits for ever; the next client is served."""

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a fault of the program")

    async with connected(front) as wire:
        with monkeypatch.context() as patch:
            patch.setattr(Partition, "append_together", broken)
            await wire.send(produce("t"))
            assert await wire.receive() == b""
    async with connected(front) as wire:
        await wire.send(produce("t", b"served"))
        assert await answered(wire) == (0, 0)
