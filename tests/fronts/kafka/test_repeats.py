"""Requests like the one before are taken without being read, and treated no other way."""

import asyncio
import errno
import os
import struct
from collections.abc import Sequence

import pytest

from chordmq.broker.broker import Broker
from chordmq.broker.partition import Partition
from chordmq.broker.security.acl import Effect, Kind, Operation, Rule
from chordmq.clock import SystemClock
from chordmq.codecs.kafka import schema
from chordmq.codecs.kafka.messages.produce import ProduceResponse
from chordmq.fronts.kafka.call import KafkaFront
from chordmq.fronts.kafka.gathering import SMALL, Gathering
from chordmq.fronts.kafka.repeats import Likeness, Repeated
from chordmq.records.batch import walk
from chordmq.records.compression import Compression
from chordmq.records.record import NewRecord, build_batch, read_records
from tests.fronts.kafka.wire import (
    Wire,
    answered,
    connected,
    fetch,
    numbered,
    produce,
    produce_batch,
    received,
    stored,
)

CORRUPT, UNKNOWN_TOPIC, DENIED, OUT_OF_ORDER, STORAGE = 2, 3, 29, 45, 56
UNSUPPORTED_COMPRESSION = 76
OLD_VERSION = 6


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Give the list of batches that were taken without reading their requests."""
    gather, append, batches = Likeness.gather, Likeness.append, list[bytes]()

    def gathered(
        self: Likeness, repeated: Repeated, batch: memoryview, gathering: Gathering
    ) -> None:
        batches.append(bytes(batch))
        gather(self, repeated, batch, gathering)

    def appended(self: Likeness, repeated: Repeated, batch: memoryview) -> None:
        batches.append(bytes(batch))
        append(self, repeated, batch)

    monkeypatch.setattr(Likeness, "gather", gathered)
    monkeypatch.setattr(Likeness, "append", appended)
    return batches


async def asked(wire: Wire, request: bytes) -> tuple[int, int]:
    await wire.send(request)
    return await answered(wire)


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("flush", ["os", "disk"])
async def test_the_third_request_of_a_kind_is_not_read(
    broker: Broker, front: KafkaFront, taken: list[bytes], acks: int, flush: str
) -> None:
    """C1: each is answered with its own offset and its own correlation id."""
    topic = await broker.topics.create("own", 1, 1, {"flush": flush})
    async with connected(front) as wire:
        for number in range(6):
            request = bytearray(produce("own", b"%d" % number * (number + 1), acks=acks))
            struct.pack_into(">i", request, 8, 1000 + number)
            await wire.send(bytes(request))
            answer = await wire.receive()
            assert struct.unpack_from(">i", answer) == (1000 + number,)
    values = [b"%d" % number * (number + 1) for number in range(6)]
    assert stored(topic.partitions[0]) == values
    assert len(taken) == 4


async def test_a_connection_that_changes_between_topics_is_read(
    broker: Broker, front: KafkaFront, partition: Partition, taken: list[bytes]
) -> None:
    """C1: nothing goes to the topic of the request before."""
    other = (await broker.topics.create("u", 1, 1, {"flush": "os"})).partitions[0]
    async with connected(front) as wire:
        for number in range(4):
            assert await asked(wire, produce("t", b"t")) == (0, number)
            assert await asked(wire, produce("u", b"u")) == (0, number)
    assert (stored(partition), stored(other)) == ([b"t"] * 4, [b"u"] * 4)
    assert not taken


async def test_a_request_of_another_kind_among_many_alike_is_read(
    front: KafkaFront, partition: Partition, taken: list[bytes]
) -> None:
    """C1: other acknowledgements, and none."""
    async with connected(front) as wire:
        await wire.send(
            b"".join(produce("t", b"%d" % number) for number in range(3))
            + produce("t", b"leader", acks=1)
            + produce("t", b"none", acks=0)
            + produce("t", b"last", acks=1)
        )
        answers = [await answered(wire) for _ in range(5)]
    assert answers == [(0, offset) for offset in (0, 1, 2, 3, 5)]
    assert stored(partition) == [b"0", b"1", b"2", b"leader", b"none", b"last"]
    assert len(taken) == 2


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("flush", ["os", "disk"])
async def test_large_batches_stand_between_small_ones_as_they_were_sent(
    broker: Broker, front: KafkaFront, taken: list[bytes], acks: int, flush: str
) -> None:
    """C1, C12: a large one is appended at once, behind those that were gathered before it."""
    topic = await broker.topics.create("own", 1, 1, {"flush": flush})
    values = [b"%d" % number * (1 if number % 3 else SMALL) for number in range(1, 10)]
    async with connected(front) as wire:
        await wire.send(b"".join(produce("own", value, acks=acks) for value in values))
        answers = [await answered(wire) for _ in values]
    assert answers == [(0, offset) for offset in range(len(values))]
    assert stored(topic.partitions[0]) == values
    assert len(taken) == len(values) - 2


async def test_the_large_batches_of_a_read_share_a_write(
    front: KafkaFront, partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C11: they are written from where they were received."""
    writes: list[int] = []
    writev = os.writev

    def counted(fd: int, pieces: Sequence[memoryview]) -> int:
        writes.append(len(pieces))
        return writev(fd, pieces)

    values = [b"%d" % number * 2 * SMALL for number in range(8)]
    async with connected(front) as wire:
        with monkeypatch.context() as patch:
            patch.setattr(os, "writev", counted)
            await wire.send(b"".join(produce("t", value, acks=1) for value in values))
            answers = [await answered(wire) for _ in values]
    assert answers == [(0, offset) for offset in range(len(values))]
    assert stored(partition) == values
    assert sum(writes) > len(writes)


@pytest.mark.parametrize("is_followed", [True, False])
async def test_the_large_batches_of_many_clients_do_not_mix(
    broker: Broker, front: KafkaFront, is_followed: bool
) -> None:
    """C12: all are received into the same memory, in pieces, while others are worked on."""
    topic = await broker.topics.create("own", 1, 1, {"flush": "os"})
    [partition] = topic.partitions

    async def send(number: int) -> None:
        async with connected(front) as wire:
            values = [b"%d-%d " % (number, turn) * 10_000 for turn in range(20)]
            stream = b"".join(produce("own", value, acks=1) for value in values)
            for start in range(0, len(stream), 300_001):
                await wire.send(stream[start : start + 300_001])
            for value in values:
                code, offset = await answered(wire)
                assert code == 0
                sent[offset] = value
                if is_followed:
                    found.update(_read(partition, offset))

    sent: dict[int, bytes] = {}
    found: dict[int, bytes | None] = {}
    await asyncio.gather(*map(send, range(6)))
    assert dict(enumerate(stored(partition))) == sent
    if is_followed:
        assert partition.log.end_offset == 120
        assert found == sent


def _read(partition: Partition, offset: int) -> dict[int, bytes | None]:
    """Return what a reader gets from an offset on."""
    return {
        record.offset: record.value
        for view in partition.log.read(offset, 1 << 20)
        for position, header in walk(view)
        for record in read_records(view[position : position + header.size])
    }


async def test_what_has_to_wait_is_kept_from_those_who_receive_meanwhile(
    front: KafkaFront, partition: Partition, broker: Broker
) -> None:
    """C12: a client's large batches behind a Fetch that waits for another client's record."""
    await broker.topics.create("u", 1, 1, {"flush": "os"})
    values = [b"%d" % number * 2 * SMALL for number in range(4)]
    requests = [produce("t", value, acks=1) for value in values]
    async with connected(front) as wire, connected(front) as other:
        await wire.send(b"".join(requests[:2]))
        assert [await answered(wire) for _ in range(2)] == [(0, 0), (0, 1)]
        sent = front.bytes_in
        waiting = fetch("u", max_wait_ms=60_000) + requests[2] + requests[3]
        await wire.send(waiting)
        await received(front, sent + len(waiting))
        for number in range(3):
            assert await asked(other, produce("t", b"y" * 3 * SMALL, acks=1)) == (0, 2 + number)
        assert await asked(other, produce("u", b"wakes")) == (0, 0)
        assert await wire.receive()
        assert [await answered(wire) for _ in range(2)] == [(0, 5), (0, 6)]
    assert stored(partition) == [*values[:2], *[b"y" * 3 * SMALL] * 3, *values[2:]]


async def test_a_large_batch_that_is_damaged_is_refused(
    front: KafkaFront, partition: Partition, taken: list[bytes]
) -> None:
    """C15: by itself."""
    damaged = bytearray(produce("t", b"y" * SMALL))
    damaged[-100] ^= 1
    async with connected(front) as wire:
        for number in range(3):
            assert await asked(wire, produce("t", b"x" * SMALL)) == (0, number)
        assert await asked(wire, bytes(damaged)) == (CORRUPT, -1)
        assert await asked(wire, produce("t", b"z")) == (0, 3)
    assert len(stored(partition)) == 4
    assert len(taken) == 3


async def test_a_bad_batch_among_many_alike_is_refused(
    front: KafkaFront, partition: Partition, taken: list[bytes]
) -> None:
    """C15: a damaged one, and garbage of the same size."""
    sound = numbered(0)
    damaged = bytearray(sound)
    damaged[-1] ^= 1
    async with connected(front) as wire:
        for number in range(3):
            assert await asked(wire, produce("t", b"x")) == (0, number)
        assert await asked(wire, produce_batch("t", bytes(damaged))) == (CORRUPT, -1)
        code, offset = await asked(wire, produce_batch("t", b"\xff" * len(sound)))
        assert (code > 0, offset) == (True, -1)
        assert await asked(wire, produce("t", b"y")) == (0, 3)
    assert stored(partition) == [b"x", b"x", b"x", b"y"]
    assert len(taken) == 4


async def test_old_producers_may_still_not_use_zstd(
    front: KafkaFront, partition: Partition, taken: list[bytes]
) -> None:
    """C15: Produce 6 knows nothing of it; each of its batches is looked at."""
    record = NewRecord(SystemClock().now_ms(), None, b"x" * 100)
    plain = bytes(build_batch([record]))
    packed = bytes(build_batch([record], compression=Compression.ZSTD))
    async with connected(front) as wire:
        codes = []
        for batch in (plain, plain, plain, packed):
            await wire.send(produce_batch("t", batch, version=OLD_VERSION))
            response = schema.decode(ProduceResponse, OLD_VERSION, await wire.receive(), 4)
            codes.append(response.responses[0].partition_responses[0].error_code)
    assert codes == [0, 0, 0, UNSUPPORTED_COMPRESSION]
    assert len(stored(partition)) == 3
    assert not taken


async def test_the_sequence_of_a_producer_is_checked(
    front: KafkaFront, partition: Partition, taken: list[bytes]
) -> None:
    """C3: a batch sent twice is stored once, and a gap is refused."""
    sent = [0, 1, 2, 2, 3, 9]
    async with connected(front) as wire:
        answers = [await asked(wire, produce_batch("t", numbered(one))) for one in sent]
    assert answers == [(0, 0), (0, 1), (0, 2), (0, 2), (0, 3), (OUT_OF_ORDER, -1)]
    assert stored(partition) == [b"0", b"1", b"2", b"3"]
    assert taken


async def test_a_deleted_topic_takes_nothing_more(
    broker: Broker, front: KafkaFront, partition: Partition, taken: list[bytes]
) -> None:
    """C4: and one that is made anew with its name begins at the start."""
    async with connected(front) as wire:
        for number in range(4):
            assert await asked(wire, produce("t", b"old")) == (0, number)
        await broker.topics.delete("t")
        assert await asked(wire, produce("t", b"lost")) == (UNKNOWN_TOPIC, -1)
        again = (await broker.topics.create("t", 1, 1, {"flush": "os"})).partitions[0]
        assert await asked(wire, produce("t", b"new")) == (0, 0)
    assert stored(again) == [b"new"]
    assert len(taken) == 2


async def test_a_right_that_is_taken_away_ends_with_the_request_before(
    broker: Broker, front: KafkaFront, partition: Partition, taken: list[bytes]
) -> None:
    """C9: what was allowed once is asked again when rules change."""
    rules = [
        Rule(
            kind=Kind.TOPIC, name="t", principal="User:*", operation=Operation.WRITE, effect=effect
        )
        for effect in (Effect.ALLOW, Effect.DENY)
    ]
    broker.permissions.is_enforced = True
    broker.permissions.acl.change(add=rules[:1])
    async with connected(front) as wire:
        for number in range(3):
            assert await asked(wire, produce("t")) == (0, number)
        broker.permissions.acl.change(add=rules[1:])
        assert await asked(wire, produce("t")) == (DENIED, -1)
    assert len(stored(partition)) == 3
    assert len(taken) == 1


@pytest.mark.parametrize("size", [1, 2 * SMALL])
async def test_what_came_before_a_malformed_request_is_answered(
    front: KafkaFront, partition: Partition, taken: list[bytes], size: int
) -> None:
    """C12: a producer that is hung up on without an answer would send it again."""
    async with connected(front) as wire:
        for number in range(2):
            assert await asked(wire, produce("t", b"x" * size)) == (0, number)
        malformed = struct.pack(">ihh", 4, 0, 9)
        await wire.send(produce("t", b"y" * size) + produce("t", b"z" * size) + malformed)
        assert [await answered(wire) for _ in range(2)] == [(0, 2), (0, 3)]
        assert await wire.receive() == b""
    assert len(stored(partition)) == 4
    assert len(taken) == 2


@pytest.mark.parametrize(("size", "work"), [(1, "append_together"), (SMALL, "append")])
async def test_a_fault_of_the_node_ends_the_connection(
    front: KafkaFront, partition: Partition, monkeypatch: pytest.MonkeyPatch, size: int, work: str
) -> None:
    """C12: nobody waits for ever."""

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a fault of the program")

    async with connected(front) as wire:
        for number in range(3):
            assert await asked(wire, produce("t", b"x" * size)) == (0, number)
        monkeypatch.setattr(Partition, work, broken)
        await wire.send(produce("t", b"x" * size))
        assert await wire.receive() == b""


async def test_a_full_disk_is_told_to_those_who_repeat_themselves(
    front: KafkaFront, partition: Partition, taken: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """C11: and the next one is taken."""

    def refuse(fd: int, data: memoryview) -> int:
        raise OSError(errno.ENOSPC, "no space")

    async with connected(front) as wire:
        for number in range(3):
            assert await asked(wire, produce("t")) == (0, number)
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", refuse)
            assert await asked(wire, produce("t")) == (STORAGE, -1)
        assert await asked(wire, produce("t")) == (0, 3)
    assert partition.log.end_offset == 4
    assert len(taken) == 3
