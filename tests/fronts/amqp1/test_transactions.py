"""Transactions over AMQP 1.0 by proton: what is sent and settled counts together, or not at all."""

from collections.abc import Callable
from typing import Any

import pytest
from proton import Message
from proton.handlers import MessagingHandler, TransactionHandler
from proton.reactor import Container

from tests.fronts.amqp.client import connected, count, publish, take
from tests.running_node import RunningNode

Act = Callable[[Any, "Client"], None]


class Client(MessagingHandler, TransactionHandler):
    """Does something in one transaction, and notes how that ends."""

    def __init__(self, node: RunningNode, queue: str, act: Act, credit: int = 0) -> None:
        super().__init__(prefetch=0, auto_accept=False)
        self.queue = queue
        self.outcome = ""
        self.received: list[str] = []
        self._address = f"{node.amqp_address[0]}:{node.amqp_address[1]}"
        self._act = act
        self._credit = credit
        self._transaction: Any = None

    def on_start(self, event: Any) -> None:
        self.connection = event.container.connect(self._address, reconnect=False)
        self.sender = event.container.create_sender(self.connection, f"/queues/{self.queue}")
        self.receiver = event.container.create_receiver(self.connection, f"/queues/{self.queue}")
        event.container.declare_transaction(self.connection, handler=self)

    def on_transaction_declared(self, event: Any) -> None:
        self._transaction = event.transaction
        if self._credit:
            self.receiver.flow(self._credit)
        else:
            self._act(self._transaction, self)

    def on_message(self, event: Any) -> None:
        self.received.append(event.message.body)
        self._transaction.accept(event.delivery)
        if len(self.received) == self._credit:
            self._act(self._transaction, self)

    def on_transaction_committed(self, event: Any) -> None:
        self._end("committed")

    def on_transaction_aborted(self, event: Any) -> None:
        self._end("aborted")

    def on_transaction_commit_failed(self, event: Any) -> None:
        self._end("failed")

    def _end(self, outcome: str) -> None:
        self.outcome = outcome
        self.connection.close()


def send(*bodies: str, then: str) -> Act:
    """Return what sends messages, and ends the transaction, or the connection within it."""

    def act(transaction: Any, client: Client) -> None:
        for body in bodies:
            transaction.send(client.sender, Message(body=body))
        if then == "hang up":
            client.connection.close()
        else:
            getattr(transaction, then)()

    return act


def run(node: RunningNode, queue: str, act: Act, credit: int = 0) -> Client:
    client = Client(node, queue, act, credit)
    Container(client).run()
    return client


@pytest.mark.parametrize(
    ("then", "outcome", "left"),
    [
        ("commit", "committed", ["c", "x", "y"]),
        ("abort", "aborted", ["a", "b", "c"]),
        ("hang up", "", ["a", "b", "c"]),
    ],
)
def test_what_is_sent_and_settled_counts_together(
    node: RunningNode, name: str, then: str, outcome: str, left: list[str]
) -> None:
    """E4: a transaction that is not committed never happened."""
    with connected(node) as channel:
        channel.confirm_delivery()
        channel.queue_declare(name, durable=True)
        for body in "abc":
            run(node, name, send(body, then="commit"))
        client = run(node, name, send("x", "y", then=then), credit=2)
        assert (client.outcome, client.received) == (outcome, ["a", "b"])
        assert [body for body, _ in take(channel, name, 3)] == left
        assert count(channel, name) == 0


def test_a_transaction_that_cannot_be_stored_is_undone(node: RunningNode, name: str) -> None:
    """E4: not one of its messages is in the queue, and there is room for others."""
    rules = {"x-max-length": 2, "x-overflow": "reject-publish"}
    with connected(node) as channel:
        channel.confirm_delivery()
        channel.queue_declare(name, durable=True, arguments=rules)
        assert run(node, name, send("a", "b", "c", then="commit")).outcome == "failed"
        assert count(channel, name) == 0
        publish(channel, "", name, "d", "e")
        assert [body for body, _ in take(channel, name, 2)] == ["d", "e"]
