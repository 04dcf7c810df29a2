"""E4, A5: what AMQP 1.0 has accepted outlives kill -9 of the node, and is as it was."""

from typing import Any

from proton import Message
from proton.reactor import DurableSubscription

from tests.fronts.amqp.client import connected, publish, take, wait_for, wait_until_stored
from tests.fronts.amqp1.client import (
    TIMEOUT_S,
    body_of,
    opened,
    receive,
    send,
    starting_at,
)
from tests.running_node import RunningNode


def test_accepted_messages_outlive_a_crash_with_their_types(own_node: RunningNode) -> None:
    bodies: list[Any] = ["text", b"bytes", None, {"k": [1, "v"]}]
    with connected(own_node) as channel:
        channel.queue_declare("kept", durable=True)
    with opened(own_node) as connection:
        for address in ("/queues/kept", "topic"):
            sender = connection.create_sender(address)
            for number, body in enumerate(bodies):
                sender.send(Message(body=body, id=number, properties={"n": number}))
        own_node.kill9()
    own_node.start()
    with opened(own_node) as connection:
        for address in ("/queues/kept", "topic"):
            receiver = connection.create_receiver(address, credit=9, options=starting_at("first"))
            for number, body in enumerate(bodies):
                found: Any = receiver.receive(timeout=TIMEOUT_S)
                assert (body_of(found), found.id) == (body, number)
                assert found.properties == {"n": number}
                receiver.accept()


def test_what_was_not_settled_comes_again_and_what_was_does_not(own_node: RunningNode) -> None:
    with connected(own_node) as channel:
        channel.confirm_delivery()
        channel.queue_declare("work", durable=True)
        publish(channel, "", "work", *"abcdef")
        with opened(own_node) as connection:
            receiver = connection.create_receiver("/queues/work", credit=4)
            assert receive(receiver, 2) == [b"a", b"b"]
            assert body_of(receiver.receive(timeout=TIMEOUT_S)) == b"c"
            connection.create_sender("other")  # whose answer comes after all that was said before
            wait_until_stored(own_node)
            own_node.kill9()
    own_node.start()
    with connected(own_node) as channel:
        wait_for(channel, "work", 4)
        assert [body for body, _ in take(channel, "work", 4)] == ["c", "d", "e", "f"]


def test_a_durable_reader_misses_nothing(own_node: RunningNode) -> None:
    durable: dict[str, Any] = {"name": "r", "credit": 1, "options": DurableSubscription()}
    with opened(own_node, container_id="c") as connection:
        receiver = connection.create_receiver("news", **durable)
        send(connection.create_sender("news"), "a", "b", "c")
        assert receive(receiver, 1) == ["a"]
        own_node.kill9()
    own_node.start()
    with opened(own_node, container_id="c") as connection:
        receiver = connection.create_receiver("news", **durable)
        found = receive(receiver, 1)
        while found[-1] != "c":
            found += receive(receiver, 1)
        assert found in (["a", "b", "c"], ["b", "c"])
