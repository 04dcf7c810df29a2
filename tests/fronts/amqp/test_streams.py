"""Streams over AMQP 0-9-1: read from any place, again and again, as fast as one acknowledges."""

import datetime
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Producer
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from tests.fronts.amqp.client import TIMEOUT_S, connected, publish
from tests.fronts.amqp1.client import opened, receive, starting_at
from tests.running_node import RunningNode

STREAM = {"x-queue-type": "stream"}


@pytest.fixture
def stream(node: RunningNode) -> Iterator[str]:
    name = f"stream-{uuid.uuid4().hex[:8]}"
    with connected(node) as channel:
        channel.confirm_delivery()
        channel.queue_declare(name, durable=True, arguments=STREAM)
        publish(channel, "", name, *(f"m{number}" for number in range(10)))
        yield name


@contextmanager
def consuming(node: RunningNode, stream: str, start: Any = None, room: int = 3) -> Iterator[Any]:
    """Give what a consumer gets, which acknowledges each message before it takes the next."""
    arguments = {} if start is None else {"x-stream-offset": start}
    with connected(node) as channel:
        channel.basic_qos(prefetch_count=room)
        yield _deliveries(channel, stream, arguments)


def _deliveries(
    channel: BlockingChannel, stream: str, arguments: dict[str, Any]
) -> Iterator[tuple[int, str]]:
    found = channel.consume(stream, arguments=arguments, inactivity_timeout=TIMEOUT_S)
    for method, properties, body in found:
        assert method is not None, "nothing came"
        assert not method.redelivered
        yield properties.headers["x-stream-offset"], body.decode()
        channel.basic_ack(method.delivery_tag)


def taken(node: RunningNode, stream: str, start: Any, count: int) -> list[tuple[int, str]]:
    with consuming(node, stream, start) as deliveries:
        return [next(deliveries) for _ in range(count)]


def test_each_consumer_reads_from_where_it_wants(node: RunningNode, stream: str) -> None:
    """E4: nothing is taken away, and acknowledgements make room for more."""
    everything = [(number, f"m{number}") for number in range(10)]
    for _ in range(2):
        assert taken(node, stream, "first", 10) == everything
    assert taken(node, stream, 6, 4) == everything[6:]
    assert taken(node, stream, "last", 1) == everything[9:]
    long_ago = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    assert taken(node, stream, long_ago, 10) == everything
    assert taken(node, stream, "1h", 10) == everything


def test_who_does_not_acknowledge_gets_no_more(node: RunningNode, stream: str) -> None:
    """E4: as many messages as the client has asked for are on their way."""
    with connected(node) as channel:
        channel.basic_qos(prefetch_count=4)
        got: list[int] = []
        channel.basic_consume(
            stream,
            lambda _, method, properties, body: got.append(method.delivery_tag),
            arguments={"x-stream-offset": "first"},
        )
        while len(got) < 4:
            channel.connection.process_data_events(time_limit=1)
        channel.queue_declare(stream, passive=True)  # all that was sent before has come
        assert len(got) == 4
        channel.basic_ack(3, multiple=True)
        while len(got) < 7:
            channel.connection.process_data_events(time_limit=1)
        channel.queue_declare(stream, passive=True)
        assert len(got) == 7


def test_a_consumer_at_the_end_gets_what_any_front_writes(node: RunningNode, stream: str) -> None:
    """E4, X1: a stream is a topic of the log."""
    with consuming(node, stream, "last") as deliveries:
        assert next(deliveries) == (9, "m9")
        producer = Producer({"bootstrap.servers": node.bootstrap})
        producer.produce(stream, b"from Kafka", key=b"k")
        assert not producer.flush(TIMEOUT_S)
        assert next(deliveries) == (10, "from Kafka")
    for address in (stream, f"/queues/{stream}"):
        with opened(node) as connection:
            receiver = connection.create_receiver(address, credit=20, options=starting_at(8))
            assert receive(receiver, 3) == [b"m8", b"m9", b"from Kafka"]


def test_a_consumer_is_told_that_its_stream_is_deleted(node: RunningNode, stream: str) -> None:
    with connected(node) as channel:
        channel.basic_qos(prefetch_count=3)
        gone: list[Any] = []
        channel.add_on_cancel_callback(gone.append)
        channel.basic_consume(stream, lambda *_: None)
        assert channel.queue_declare(stream, passive=True).method.consumer_count == 1
        with connected(node) as other:
            other.queue_delete(stream)
        while not gone:
            channel.connection.process_data_events(time_limit=1)
        with pytest.raises(ChannelClosedByBroker, match="404"):
            channel.queue_declare(stream, passive=True)
