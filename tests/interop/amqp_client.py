"""One client for the same scenarios on RabbitMQ and on a node: pika, with names of its own."""

import time
import uuid
from collections.abc import Callable
from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker

Properties = pika.BasicProperties
WAIT_S = 60.0


class Client:
    """One connection of pika's, and names that no other scenario has."""

    def __init__(self, port: int) -> None:
        self._parameters = pika.ConnectionParameters("127.0.0.1", port, heartbeat=0)
        self._connections: list[pika.BlockingConnection] = []
        self.prefix = f"s{uuid.uuid4().hex[:8]}"
        self.channel = self.new_channel()

    def name(self, text: str) -> str:
        """Return a name of this scenario's own."""
        return f"{self.prefix}.{text}"

    def plain(self, text: Any) -> Any:
        """Return an outcome without what differs from run to run."""
        if isinstance(text, str):
            return text.replace(self.prefix, "")
        if isinstance(text, list | tuple):
            return [self.plain(one) for one in text]
        if isinstance(text, dict):
            return {key: self.plain(one) for key, one in text.items() if key != "time"}
        return text

    def new_channel(self) -> BlockingChannel:
        """Return a channel of a new connection."""
        connection = pika.BlockingConnection(self._parameters)
        self._connections.append(connection)
        return connection.channel()

    def queue(self, text: str, **more: Any) -> str:
        """Declare a durable queue."""
        name = self.name(text)
        self.channel.queue_declare(name, durable=True, **more)
        return name

    def exchange(self, text: str, kind: str, **more: Any) -> str:
        """Declare a durable exchange."""
        name = self.name(text)
        self.channel.exchange_declare(name, kind, durable=True, **more)
        return name

    def send(self, exchange: str, key: str, *bodies: str, **properties: Any) -> None:
        """Publish messages."""
        for body in bodies:
            self.channel.basic_publish(exchange, key, body.encode(), Properties(**properties))

    def take(self, queue: str, count: int = 1000, wait_s: float = 0.0) -> list[str]:
        """Get messages and acknowledge them."""
        found: list[str] = []
        deadline = time.monotonic() + wait_s
        while len(found) < count:
            method, _, body = self.channel.basic_get(queue, auto_ack=True)
            if method is not None:
                found.append(body.decode())
            elif time.monotonic() > deadline:
                break
        return found

    def one(self, queue: str) -> tuple[Any, Any, Any]:
        """Wait for one message."""
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            method, properties, body = self.channel.basic_get(queue, auto_ack=True)
            if method is not None:
                return method, properties, body
        raise AssertionError(f"nothing came to {queue}")

    def read(self, stream: str, start: Any, count: int) -> list[Any]:
        """Read so many messages of a stream from a place on."""
        channel = self.new_channel()
        found: list[Any] = []
        channel.basic_qos(prefetch_count=2)
        for method, properties, body in channel.consume(
            stream, arguments={"x-stream-offset": start}, inactivity_timeout=WAIT_S
        ):
            assert method is not None, f"{len(found)} of {count} messages came"
            channel.basic_ack(method.delivery_tag)
            route = self.plain([method.exchange, method.routing_key])
            kind = properties.content_type
            found.append([body, *route, method.redelivered, properties.headers, kind])
            if len(found) == count:
                break
        return found

    def count(self, queue: str) -> int:
        """Return how many messages wait."""
        return int(self.channel.queue_declare(queue, passive=True).method.message_count)

    def refusal(self, act: Callable[[BlockingChannel], Any]) -> list[Any]:
        """Return what an operation is answered with: code, and what is closed by it."""
        channel = self.new_channel()
        try:
            act(channel)
            channel.basic_qos(prefetch_count=1)  # whatever comes of the first is heard by now
        except ChannelClosedByBroker as error:
            return ["channel", error.reply_code]
        except ConnectionClosedByBroker as error:
            return ["connection", error.reply_code]
        return ["fine"]

    def close(self) -> None:
        """End all connections."""
        for connection in self._connections:
            if connection.is_open:
                connection.close()
