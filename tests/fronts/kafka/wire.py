"""A client of the Kafka front that chooses itself which bytes go out when."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from chordmq.broker.partition import Partition
from chordmq.clock import SystemClock
from chordmq.codecs.kafka import schema
from chordmq.codecs.kafka.header import request_head
from chordmq.codecs.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from chordmq.codecs.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from chordmq.fronts.kafka.call import KafkaFront
from chordmq.records.record import NewRecord, build_batch, read_records

PRODUCE_VERSION = 9
FETCH_VERSION = 12
HEAD_SIZE = 5
"""Of an answer: the correlation id, and no tagged fields."""


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


def produce(topic: str, value: bytes = b"x", *, acks: int = -1, index: int = 0) -> bytes:
    batch = bytes(build_batch([NewRecord(SystemClock().now_ms(), None, value)]))
    return produce_batch(topic, batch, acks=acks, index=index)


def produce_batch(
    topic: str, batch: bytes, *, acks: int = -1, version: int = PRODUCE_VERSION, index: int = 0
) -> bytes:
    rows = [PartitionProduceData(index=index, records=batch)]
    topics = [TopicProduceData(name=topic, partition_data=rows)]
    return framed(ProduceRequest(acks=acks, timeout_ms=1000, topic_data=topics), version)


def fetch(topic: str, *, max_wait_ms: int) -> bytes:
    rows = [FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)]
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        session_epoch=-1,
        topics=[FetchTopic(topic=topic, partitions=rows)],
    )
    return framed(request, FETCH_VERSION)


async def answered(wire: Wire) -> tuple[int, int]:
    """Return error code and offset of the next answer to a Produce request."""
    response = schema.decode(ProduceResponse, PRODUCE_VERSION, await wire.receive(), HEAD_SIZE)
    [row] = response.responses[0].partition_responses
    return row.error_code, row.base_offset


def stored(partition: Partition) -> list[bytes | None]:
    """Return the values in a partition's log."""
    return [record.value for _, batch in partition.log.scan(0) for record in read_records(batch)]


def numbered(sequence: int) -> bytes:
    """Return a batch of an idempotent producer."""
    record = NewRecord(SystemClock().now_ms(), None, b"%d" % sequence)
    return bytes(build_batch([record], producer_id=9, epoch=0, sequence=sequence))


async def received(front: KafkaFront, count: int) -> None:
    """Wait until the node has so many bytes of its clients."""
    while front.bytes_in < count:  # noqa: ASYNC110 - nobody says when
        await asyncio.sleep(0)
