"""A consumer over AMQP: a queue of its own on the topic's exchange, or the queue of the topic."""

from collections.abc import Iterator
from contextlib import suppress

import pika
from pika.exceptions import AMQPError

from tests.faults.subscribers.subscriber import Wanted

HELD = 200
BEGINNING = {"x-stream-offset": "first"}


class Amqp:
    """Acknowledges each message when it is processed."""

    def __init__(self, wanted: Wanted) -> None:
        address = pika.ConnectionParameters("127.0.0.1", wanted.ports["amqp"])
        self._connection = pika.BlockingConnection(address)
        self._channel = self._connection.channel()
        self._channel.basic_qos(prefetch_count=HELD)
        self._queue = wanted.topic if wanted.kind == "shared" else wanted.name
        self._channel.queue_declare(self._queue, durable=True, arguments=BEGINNING)
        if wanted.kind != "shared":
            self._channel.exchange_declare(wanted.topic, "fanout", durable=True)
            self._channel.queue_bind(self._queue, wanted.topic)

    def messages(self) -> Iterator[tuple[int, bytes]]:
        for method, _, body in self._channel.consume(self._queue):
            yield method.delivery_tag, body

    def processed(self, token: int) -> None:
        self._channel.basic_ack(token)

    def close(self) -> None:
        with suppress(AMQPError):
            self._connection.close()
