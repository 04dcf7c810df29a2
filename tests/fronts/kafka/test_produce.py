"""Produce within transactions: partitions join by hand or by the batch itself, in order."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from chordmq.broker.broker import Broker
from chordmq.broker.producers import Incarnation
from chordmq.broker.transactions.machine import State
from chordmq.clock import SystemClock
from chordmq.codecs.kafka import schema
from chordmq.codecs.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from chordmq.fronts.kafka.call import Call, Client, KafkaFront
from chordmq.fronts.kafka.produce import produce
from chordmq.fronts.listener import Listener, ListenerSettings
from chordmq.records.batch import TRANSACTIONAL
from chordmq.records.record import NewRecord, build_batch

INVALID_EPOCH, INVALID_STATE, UNKNOWN_MAPPING, ABORTABLE = 47, 48, 49, 120
ENLISTS_SINCE = 12

Send = Callable[..., Any]


@pytest.fixture
async def producer(broker: Broker) -> Incarnation:
    await broker.transactions.loaded.wait()
    await broker.topics.create("t", 2, 1)
    return await broker.transactions.init("x", 60_000)


@pytest.fixture
def send(broker: Broker) -> Send:
    """Give a function that sends a batch of one connection, and returns its answer's future."""
    listener = Listener(ListenerSettings(), SystemClock(), "kafka")
    front, client = KafkaFront(broker, listener), Client("10.0.0.1")

    def send(
        producer: Incarnation, sequence: int, version: int, *, partition: int = 0
    ) -> "asyncio.Future[tuple[int, int]]":
        batch = build_batch(
            [NewRecord(broker.clock.now_ms(), b"k", b"%d" % sequence)],
            flags=TRANSACTIONAL,
            producer_id=producer.producer_id,
            epoch=producer.epoch,
            sequence=sequence,
        )
        topic = broker.topics.get("t")
        data = TopicProduceData(
            partition_data=[PartitionProduceData(index=partition, records=bytes(batch))]
        )
        if version >= 13:
            data.topic_id = topic.id
        else:
            data.name = "t"
        request = ProduceRequest(transactional_id="x", acks=-1, timeout_ms=1000, topic_data=[data])
        frame = memoryview(bytearray(schema.encode(request, version)))
        result = produce(Call(front, client, version, "test"), frame, 0)
        return asyncio.ensure_future(answered(result, version))

    return send


async def answered(result: Any, version: int) -> tuple[int, int]:
    """Return the error code and the base offset of the answer."""
    buffers = result if isinstance(result, list) else await result
    response = schema.decode(ProduceResponse, version, b"".join(buffers))
    row = response.responses[0].partition_responses[0]
    return row.error_code, row.base_offset


@pytest.mark.parametrize("version", range(3, ENLISTS_SINCE))
async def test_before_version_12_a_partition_has_to_be_added_first(
    broker: Broker, producer: Incarnation, send: Send, version: int
) -> None:
    """C3: the code for a batch out of place depends on what the version knows."""
    refused, _ = await send(producer, 0, version)
    assert refused == (ABORTABLE if version >= 11 else INVALID_STATE)
    await broker.transactions.add("x", producer, [("t", 0)])
    assert await send(producer, 0, version) == (0, 0)
    assert await send(producer, 1, version) == (0, 1)


@pytest.mark.parametrize("version", ProduceRequest.versions[-2:])
async def test_from_version_12_on_a_batch_adds_its_partition(
    broker: Broker, producer: Incarnation, send: Send, version: int
) -> None:
    """C3, KIP-890: `transaction.version` 2 is real."""
    assert await send(producer, 0, version) == (0, 0)
    assert await send(producer, 0, version, partition=1) == (0, 0)
    found = broker.transactions.find("x")
    assert found.state is State.ONGOING
    assert found.partitions == {("t", 0), ("t", 1)}


async def test_batches_that_wait_for_their_partition_keep_their_order(
    broker: Broker, producer: Incarnation, send: Send
) -> None:
    """C3: five requests on their way, as producers have; none overtakes another."""
    answers = [send(producer, sequence, 12) for sequence in range(5)]
    assert await asyncio.gather(*answers) == [(0, offset) for offset in range(5)]
    again = [send(producer, sequence, 12) for sequence in range(5, 10)]
    assert await asyncio.gather(*again) == [(0, offset) for offset in range(5, 10)]


async def test_the_next_transaction_waits_until_the_last_is_complete(
    broker: Broker, producer: Incarnation, send: Send
) -> None:
    await send(producer, 0, 12)
    following = await broker.transactions.end(
        "x", producer, is_commit=True, has_epoch_per_transaction=True
    )
    code, offset = await send(following, 0, 12)
    assert (code, offset) == (0, 2), "after the record and the marker"


@pytest.mark.parametrize("version", [11, 12])
async def test_a_zombie_may_not_write(
    broker: Broker, producer: Incarnation, send: Send, version: int
) -> None:
    """C3: fenced before its first batch and after."""
    heir = await broker.transactions.init("x", 60_000)
    assert await send(producer, 0, version) == (INVALID_EPOCH, -1)
    await broker.transactions.add("x", heir, [("t", 0)])
    await send(heir, 0, version)
    assert await send(producer, 0, version) == (INVALID_EPOCH, -1)
    stranger = Incarnation(heir.producer_id + 1, 0)
    assert await send(stranger, 0, version) == (UNKNOWN_MAPPING, -1)
