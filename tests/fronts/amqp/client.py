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
