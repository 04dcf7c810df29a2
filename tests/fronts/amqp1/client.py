"""An AMQP 1.0 client for tests: proton's blocking connection with what tests need on top."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from proton import Described, Message, ProtonException, symbol
from proton.reactor import Filter
from proton.utils import BlockingConnection, BlockingReceiver, BlockingSender, LinkDetached

from tests.running_node import RunningNode

TIMEOUT_S = 60.0
OFFSET = "rabbitmq:stream-offset-spec"


@contextmanager
def opened(node: RunningNode, **more: Any) -> Iterator[BlockingConnection]:
    """Give a connection."""
    host, port = node.amqp_address
    connection = BlockingConnection(f"amqp://{host}:{port}", timeout=TIMEOUT_S, **more)
    try:
        yield connection
    finally:
        with suppress(ProtonException, OSError):  # the node may be gone
            connection.close()


def starting_at(offset: Any) -> Any:
    """Return the option of a receiver that begins to read a topic at a place."""
    return Filter({symbol(OFFSET): Described(symbol(OFFSET), offset)})


def send(sender: BlockingSender, *bodies: Any) -> None:
    """Send messages, each when the one before is accepted."""
    for body in bodies:
        sender.send(Message(body=body, durable=True))


def receive(receiver: BlockingReceiver, count: int) -> list[Any]:
    """Return the bodies of so many messages, and accept them."""
    found = []
    for _ in range(count):
        found.append(body_of(receiver.receive(timeout=TIMEOUT_S)))
        receiver.accept()
    return found


def body_of(message: Any) -> Any:
    """Return the body of a message that is still there."""
    body = message.body
    return bytes(body) if isinstance(body, memoryview) else body


def refusal(connection: BlockingConnection, **link: Any) -> str:
    """Return the condition with which a link is refused."""
    try:
        if "target" in link:
            connection.create_sender(link["target"])
        else:
            connection.create_receiver(link["source"])
    except LinkDetached as detached:
        condition = str(detached.condition)
        assert condition, "a refusal says why"
        return condition
    raise AssertionError("the link was not refused")


def wait_until(condition: Any) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
