"""A consumer over AMQP 1.0: a durable link to the topic, or the queue of the topic."""

from collections.abc import Iterator
from contextlib import suppress

import pika
from proton import ProtonException
from proton.reactor import Container, DurableSubscription
from proton.utils import BlockingConnection

from tests.faults.subscribers.amqp import BEGINNING, HELD
from tests.faults.subscribers.subscriber import Wanted
from tests.fronts.amqp1.client import TIMEOUT_S, body_of, starting_at


class Amqp1:
    """Accepts each message when it is processed."""

    def __init__(self, wanted: Wanted) -> None:
        port, container = wanted.ports["amqp"], Container()
        container.container_id = wanted.name
        self._connection = BlockingConnection(
            f"amqp://127.0.0.1:{port}", timeout=TIMEOUT_S, container=container
        )
        if wanted.kind == "shared":
            declare(port, wanted.topic)
            self._receiver = self._connection.create_receiver(
                f"/queues/{wanted.topic}", credit=HELD
            )
        else:
            self._receiver = self._connection.create_receiver(
                wanted.topic,
                credit=HELD,
                name="own",
                options=[starting_at("first"), DurableSubscription()],
            )

    def messages(self) -> Iterator[tuple[None, bytes]]:
        while True:
            body = body_of(self._receiver.receive(timeout=None))
            yield None, body if isinstance(body, bytes) else body.encode()

    def processed(self, token: None) -> None:
        self._receiver.accept()

    def close(self) -> None:
        with suppress(ProtonException, OSError):
            self._connection.close()


def declare(port: int, queue: str) -> None:
    """Make a queue that begins with the oldest record of its topic, as 0-9-1 can say."""
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port)) as connection:
        connection.channel().queue_declare(queue, durable=True, arguments=BEGINNING)
