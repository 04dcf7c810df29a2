"""One connection: what is begun when, and how long a client may take over a request."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from chordmq.broker.broker import Broker
from chordmq.broker.partition import Partition
from chordmq.clock import ManualClock
from chordmq.codecs.frames import PREFIX_SIZE
from chordmq.codecs.kafka import schema
from chordmq.codecs.kafka.messages.fetch import FetchResponse
from chordmq.fronts.kafka.call import KafkaFront
from chordmq.fronts.kafka.connection import PIPELINE_MAX, KafkaConnection
from chordmq.fronts.kafka.dispatch import answer
from chordmq.fronts.listener import Listener, ListenerSettings
from tests.fronts.kafka.wire import (
    FETCH_VERSION,
    HEAD_SIZE,
    answered,
    connected,
    fetch,
    produce,
    received,
)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=[answer, None], ids=["alone", "gathered"])
async def front(
    broker: Broker, clock: ManualClock, request: pytest.FixtureRequest
) -> AsyncIterator[KafkaFront]:
    """Give a front that serves each Produce request by itself, and one that gathers them."""
    listener = Listener(ListenerSettings(port=0, partial_frame_timeout_s=30), clock, "kafka")
    front = KafkaFront(broker, listener, answer=request.param)
    await listener.open(lambda: KafkaConnection(front))
    running = asyncio.ensure_future(listener.run())
    yield front
    await listener.close(0)
    await running


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
        answer = schema.decode(FetchResponse, FETCH_VERSION, frame, HEAD_SIZE)
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


async def test_requests_that_wait_behind_another_count_as_memory(
    front: KafkaFront, partition: Partition
) -> None:
    """C11: what ten thousand clients have sent ahead must not be more than the node has."""
    memory = front.listener.memory
    first, later = fetch("t", max_wait_ms=30_000), produce("t", b"x" * 100_000)
    async with connected(front) as wire:
        await wire.send(first + later)
        await received(front, len(first + later))
        assert memory.used == len(later) - PREFIX_SIZE
        async with connected(front) as other:
            await other.send(produce("t", b"wakes the fetch"))
            assert await answered(other) == (0, 0)
        await wire.receive()
        assert await answered(wire) == (0, 1)
        assert memory.used == 0
