"""Fetch requests through the codec: sessions over changes of their topics, and odd limits."""

import asyncio
from typing import Any

import pytest

from chordmq.broker.broker import Broker
from chordmq.clock import SystemClock
from chordmq.codecs.kafka import schema
from chordmq.codecs.kafka.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from chordmq.fronts.kafka.call import Call, Client, KafkaFront
from chordmq.fronts.kafka.fetch import fetch
from chordmq.fronts.listener import Listener, ListenerSettings
from chordmq.records.record import NewRecord, build_batch

BY_NAME = 12
"""The last version that names topics; a session outlives its topics there."""


class Consumer:
    """One connection that fetches partition 0 of a topic."""

    def __init__(self, broker: Broker) -> None:
        listener = Listener(ListenerSettings(), SystemClock(), "kafka")
        self._call = Call(KafkaFront(broker, listener), Client("10.0.0.1"), BY_NAME, "test")

    async def fetch(self, topic: str | None, **values: Any) -> FetchResponse:
        """Fetch, naming the topic or leaving it to the session; `row_max` limits the row."""
        row = FetchPartition(
            partition=0, fetch_offset=0, partition_max_bytes=values.pop("row_max", 1 << 20)
        )
        topics = [] if topic is None else [FetchTopic(topic=topic, partitions=[row])]
        request = FetchRequest(max_wait_ms=0, min_bytes=1, topics=topics, **values)
        frame = memoryview(bytes(schema.encode(request, BY_NAME)))
        buffers = fetch(self._call, frame, 0)
        if isinstance(buffers, asyncio.Future):
            buffers = await buffers or []
        answer = b"".join(bytes(buffer) for buffer in buffers)
        return schema.decode(FetchResponse, BY_NAME, answer)


def write(broker: Broker, topic: str) -> None:
    record = NewRecord(SystemClock().now_ms(), None, b"x")
    broker.partition(topic, 0).append(memoryview(build_batch([record])))


def row_of(answer: FetchResponse) -> Any:
    [topic] = answer.responses
    [row] = topic.partitions
    return row


async def test_a_session_finds_a_topic_that_was_made_anew(broker: Broker) -> None:
    """C6: clients do not name an unchanged partition again, so the session has to look."""
    await broker.topics.create("t", 1, 1, {"flush": "os"})
    consumer = Consumer(broker)
    session_id = (await consumer.fetch("t", session_epoch=0)).session_id
    await broker.topics.delete("t")
    gone = await consumer.fetch(None, session_id=session_id, session_epoch=1)
    assert row_of(gone).error_code
    await broker.topics.create("t", 1, 1, {"flush": "os"})
    write(broker, "t")
    found = row_of(await consumer.fetch(None, session_id=session_id, session_epoch=2))
    assert not found.error_code
    assert found.records


async def test_a_session_finds_a_topic_that_was_not_there_at_first(broker: Broker) -> None:
    """C6: as above, for a consumer that comes before its topic."""
    consumer = Consumer(broker)
    first = await consumer.fetch("t", session_epoch=0)
    assert row_of(first).error_code
    await broker.topics.create("t", 1, 1, {"flush": "os"})
    write(broker, "t")
    found = await consumer.fetch(None, session_id=first.session_id, session_epoch=1)
    assert row_of(found).records


@pytest.mark.parametrize("row_max", [-(2**31), -1, 0, 2**31 - 1])
@pytest.mark.parametrize("from_file", [False, True], ids=["memory", "file"])
async def test_any_limit_of_a_row_brings_at_least_one_batch(
    broker: Broker, row_max: int, from_file: bool
) -> None:
    """C6: a limit that makes no sense neither fails nor holds the consumer up."""
    await broker.topics.create("t", 1, 1, {"flush": "os"})
    write(broker, "t")
    if from_file:
        broker.partition("t", 0).log._tail.clear()
    answer = await Consumer(broker).fetch("t", session_epoch=-1, row_max=row_max)
    assert row_of(answer).records
