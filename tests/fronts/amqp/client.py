"""A plain AMQP client for tests: pika's blocking connection with what tests need on top."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError

from tests.running_node import RunningNode

TIMEOUT_S = 60.0
PERSISTENT = pika.BasicProperties(delivery_mode=2)


@contextmanager
def connected(node: RunningNode, **more: Any) -> Iterator[BlockingChannel]:
    """Give a channel of a connection of its own."""
    host, port = node.amqp_address
    patience: dict[str, Any] = {"socket_timeout": TIMEOUT_S, "stack_timeout": TIMEOUT_S}
    connection = pika.BlockingConnection(pika.ConnectionParameters(host, port, **patience | more))
    try:
        yield connection.channel()
    finally:
        with suppress(AMQPError):  # the node may be gone
            connection.close()


def publish(channel: BlockingChannel, exchange: str, key: str, *bodies: str) -> None:
    """Publish persistent messages."""
    for body in bodies:
        channel.basic_publish(exchange, key, body.encode(), PERSISTENT)


def take(channel: BlockingChannel, queue: str, count: int) -> list[tuple[str, bool]]:
    """Get so many messages, acknowledge them, and return each with its redelivered flag."""
    found: list[tuple[str, bool]] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(found) < count:
        method, _, body = channel.basic_get(queue)
        if method is not None:
            found.append((body.decode(), method.redelivered))
            channel.basic_ack(method.delivery_tag)
        else:
            assert time.monotonic() < deadline, f"{len(found)} of {count} messages came"
    return found


def count(channel: BlockingChannel, queue: str) -> int:
    """Return how many messages wait in a queue."""
    return int(channel.queue_declare(queue, passive=True).method.message_count)


def wait_for(channel: BlockingChannel, queue: str, wanted: int) -> None:
    """Wait until so many messages are in a queue."""
    deadline = time.monotonic() + TIMEOUT_S
    while (found := count(channel, queue)) != wanted:
        assert time.monotonic() < deadline, f"{found} messages instead of {wanted}"


def wait_until_stored(node: RunningNode) -> None:
    """Wait until the log knows what was acknowledged, which happens a moment later."""
    deadline = time.monotonic() + TIMEOUT_S
    while node.metric("chordmq_amqp_progress_unstored"):
        assert time.monotonic() < deadline


class Worker:
    """One of several consumers that share a queue, with a connection of its own."""

    def __init__(self, channel: BlockingChannel, queue: str, prefetch: int) -> None:
        self.channel = channel
        self.bodies: list[str] = []
        self.tags: list[int] = []
        self.flags: list[bool] = []
        channel.basic_qos(prefetch_count=prefetch)
        channel.basic_consume(queue, self._got)

    def _got(self, channel: BlockingChannel, method: Any, properties: Any, body: bytes) -> None:
        self.bodies.append(body.decode())
        self.tags.append(method.delivery_tag)
        self.flags.append(method.redelivered)

    def wait_for(self, count: int) -> None:
        """Wait until so many messages have come, and a moment for one too many."""
        deadline = time.monotonic() + TIMEOUT_S
        while len(self.bodies) < count:
            assert time.monotonic() < deadline, f"{len(self.bodies)} of {count} messages came"
            self.channel.connection.process_data_events(0.05)
        self.channel.connection.process_data_events(0.05)
        assert len(self.bodies) == count


def publish_together(channel: BlockingChannel, queue: str, count: int) -> None:
    """Publish numbers that come into the queue at once."""
    channel.tx_select()
    publish(channel, "", queue, *map(str, range(count)))
    channel.tx_commit()
