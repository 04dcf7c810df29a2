"""One connection: what is begun when, and how long a client may take over a request."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from chordmq.broker.broker import Broker
from chordmq.clock import ManualClock, SystemClock
from chordmq.codecs.kafka import schema
from chordmq.codecs.kafka.header import request_head
from chordmq.codecs.kafka.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from chordmq.codecs.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from chordmq.fronts.kafka.call import KafkaFront
from chordmq.fronts.kafka.connection import PIPELINE_MAX, KafkaConnection
from chordmq.fronts.listener import Listener, ListenerSettings
from chordmq.records.record import NewRecord, build_batch

PRODUCE_VERSION = 9
FETCH_VERSION = 12
FETCH_HEAD_SIZE = 5
"""The correlation id, and no tagged fields."""


class Wire:
    """A client that chooses itself which bytes go out when."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def receive(self) -> bytes:
        """Return the next answer, or nothing if the node hung up."""
        try:
            (size,) = struct.unpack(">i", await self._reader.readexactly(4))
            return await self._reader.readexactly(size)
        except asyncio.IncompleteReadError:
            return b""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def front(broker: Broker, clock: ManualClock) -> AsyncIterator[KafkaFront]:
    listener = Listener(ListenerSettings(port=0, partial_frame_timeout_s=30), clock, "kafka")
    front = KafkaFront(broker, listener)
    await listener.open(lambda: KafkaConnection(front))
    running = asyncio.ensure_future(listener.run())
    yield front
    await listener.close(0)
    await running


@asynccontextmanager
async def connected(front: KafkaFront) -> AsyncIterator[Wire]:
    reader, writer = await asyncio.open_connection("127.0.0.1", front.listener.port)
    try:
        yield Wire(reader, writer)
    finally:
        writer.close()
        await writer.wait_closed()


def framed(request: Any, version: int) -> bytes:
    head = request_head(request.api_key, version, 1, "test")
    frame = bytes(head) + bytes(schema.encode(request, version))
    return struct.pack(">i", len(frame)) + frame


def produce(topic: str) -> bytes:
    batch = bytes(build_batch([NewRecord(SystemClock().now_ms(), None, b"x")]))
    rows = [PartitionProduceData(index=0, records=batch)]
    topics = [TopicProduceData(name=topic, partition_data=rows)]
    return framed(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics), PRODUCE_VERSION)


def fetch(topic: str, *, max_wait_ms: int) -> bytes:
    rows = [FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)]
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        session_epoch=-1,
        topics=[FetchTopic(topic=topic, partitions=rows)],
    )
    return framed(request, FETCH_VERSION)


async def received(front: KafkaFront, count: int) -> None:
    """Wait until the node has so many bytes of its clients."""
    while front.bytes_in < count:  # noqa: ASYNC110 - nobody says when
        await asyncio.sleep(0)


async def test_nothing_is_begun_behind_a_waiting_fetch_when_a_produce_before_it_ends(
    broker: Broker, front: KafkaFront
) -> None:
    """C12: requests of one connection are carried out in their order."""
    await broker.topics.create("flushed", 1, 1, {"flush": "disk"})
    await broker.topics.create("read", 1, 1, {"flush": "os"})
    async with connected(front) as wire:
        await wire.send(produce("flushed") + fetch("read", max_wait_ms=300) + produce("read"))
        await wire.receive()
        frame = await wire.receive()
        answer = schema.decode(FetchResponse, FETCH_VERSION, frame, FETCH_HEAD_SIZE)
        assert not answer.responses[0].partitions[0].records
        assert await wire.receive()


async def test_the_time_for_a_request_begins_with_its_first_byte(
    front: KafkaFront, clock: ManualClock
) -> None:
    """C11: a client may be silent for longer than a request may take, and then begin one."""
    request = fetch("any", max_wait_ms=0)
    async with connected(front) as wire:
        await wire.send(request)
        assert await wire.receive()
        clock.advance(60_000)
        await wire.send(request[:20])
        await received(front, len(request) + 20)
        front.listener.sweep()
        await wire.send(request[20:])
        assert await wire.receive()


@pytest.mark.parametrize("sent", [2, 20], ids=["of its size", "of the request"])
async def test_a_request_that_trickles_in_is_given_up(
    front: KafkaFront, clock: ManualClock, sent: int
) -> None:
    """C11: more bytes do not lengthen the time; a slow attacker would keep its memory for ever."""
    request = fetch("any", max_wait_ms=0)
    async with connected(front) as wire:
        await wire.send(request[:sent])
        await received(front, sent)
        clock.advance(29_000)
        await wire.send(request[sent : sent + 1])
        await received(front, sent + 1)
        clock.advance(2_000)
        front.listener.sweep()
        assert not await wire.receive()


@pytest.mark.parametrize("flush", ["os", "disk"])
async def test_many_requests_may_be_sent_without_waiting_for_an_answer(
    broker: Broker, front: KafkaFront, flush: str
) -> None:
    """C12: more requests at once than are worked on at once are all answered."""
    await broker.topics.create("t", 1, 1, {"flush": flush})
    async with connected(front) as wire:
        await wire.send(produce("t") * 4 * PIPELINE_MAX)
        for _ in range(4 * PIPELINE_MAX):
            assert await wire.receive()
    assert broker.partition("t", 0).high_watermark == 4 * PIPELINE_MAX
