"""Links: where they lead to, what is refused, credit, settlement, and what 0-9-1 sees of it."""

import uuid
from typing import Any

import httpx
import pika
import pytest
from proton import Delivery, Message, symbol
from proton.reactor import AtMostOnce, DurableSubscription
from proton.utils import BlockingConnection, SendException

from tests.fronts.amqp.client import connected, publish, take, wait_for
from tests.fronts.amqp1.client import (
    TIMEOUT_S,
    body_of,
    opened,
    receive,
    refusal,
    send,
    starting_at,
    wait_until,
)
from tests.running_node import RunningNode


def outcome(connection: BlockingConnection, target: str | None, **fields: Any) -> int:
    """Return what becomes of a message."""
    try:
        sender = connection.create_sender(target, name=uuid.uuid4().hex)
        delivery = sender.send(Message(**fields))
    except SendException as error:
        return int(error.state)
    return int(delivery.remote_state)


def next_of(receiver: Any) -> Any:
    """Return the next message."""
    return receiver.receive(timeout=TIMEOUT_S)


# Between both versions.


def test_what_0_9_1_publishes_a_1_0_client_gets(node: RunningNode, name: str) -> None:
    """E4: both versions share queues."""
    with connected(node) as channel, opened(node) as connection:
        channel.queue_declare(name, durable=True)
        properties = pika.BasicProperties(
            content_type="text/plain",
            content_encoding="gzip",
            headers={"n": 5, "t": "x", "list": [1, 2]},
            delivery_mode=2,
            priority=3,
            correlation_id="c",
            reply_to="answers",
            expiration="60000",
            message_id="m",
            timestamp=1_700_000_000,
            type="kind",
            app_id="app",
        )
        channel.basic_publish("", name, b"body", properties)
        receiver = connection.create_receiver(f"/queues/{name}", credit=1)
        found = next_of(receiver)
        assert body_of(found) == b"body"
        assert (found.id, found.correlation_id, found.subject) == ("m", "c", "kind")
        assert (found.content_type, found.content_encoding) == ("text/plain", "gzip")
        assert (found.durable, found.priority, found.ttl) == (True, 3, 60.0)
        assert (found.reply_to, found.creation_time) == ("/queues/answers", 1_700_000_000.0)
        assert (found.group_id, found.properties) == ("app", {"n": 5, "t": "x"})
        assert found.annotations["x-opt-list"] == [1, 2]
        assert found.annotations["x-routing-key"] == name
        receiver.accept()


def test_what_1_0_sends_a_0_9_1_client_gets(node: RunningNode, name: str) -> None:
    with connected(node) as channel, opened(node) as connection:
        channel.queue_declare(name, durable=True)
        message = Message(
            body="grüße",
            id=uuid.UUID(int=1),
            subject="kind",
            reply_to="/queues/answers%2Fall",
            correlation_id="c",
            content_type=symbol("text/plain"),
            creation_time=1_700_000_000.5,
            durable=True,
            priority=7,
            ttl=60.0,
            properties={"a": 1, "b": "x", "c": True, "d": b"\xff"},
        )
        connection.create_sender(f"/queues/{name}").send(message)
        wait_for(channel, name, 1)
        _, properties, body = channel.basic_get(name, auto_ack=True)
        assert body.decode() == "grüße"
        assert properties.message_id == str(uuid.UUID(int=1))
        assert (properties.type, properties.correlation_id) == ("kind", "c")
        assert (properties.reply_to, properties.content_type) == ("answers/all", "text/plain")
        assert (properties.delivery_mode, properties.priority) == (2, 7)
        assert (properties.timestamp, properties.expiration) == (1_700_000_000, "60000")
        headers = dict(properties.headers)
        assert headers.pop("timestamp_in_ms") == 1_700_000_000_500
        assert headers == {"a": 1, "b": "x", "c": True, "d": b"\xff"}


@pytest.mark.parametrize("place", ["/queues/{}", "{}"])
def test_types_are_kept_between_1_0_clients(node: RunningNode, name: str, place: str) -> None:
    """E4: nothing is lost by way of 0-9-1."""
    address = place.format(name)
    bodies: list[Any] = [
        "text", b"bytes", None, 5, 2.5, True, [1, None, "a"], {"k": [b"v"]}, uuid.UUID(int=9),
    ]  # fmt: skip
    with connected(node) as channel, opened(node) as connection:
        if place.startswith("/"):
            channel.queue_declare(name, durable=True)
        receiver = connection.create_receiver(address, credit=20)
        sender = connection.create_sender(address)
        for number, body in enumerate(bodies):
            sender.send(Message(body=body, id=number, properties={"p": None, "f": 1.5}))
        for number, body in enumerate(bodies):
            found = next_of(receiver)
            assert (plain(found.body), found.id) == (body, number)
            assert found.properties == {"p": None, "f": 1.5}
            receiver.accept()


def plain(value: Any) -> Any:
    if isinstance(value, memoryview):
        return bytes(value)
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list) else value


# Targets.


def test_an_exchange_is_addressed_with_a_key(node: RunningNode, name: str) -> None:
    with connected(node) as channel, opened(node) as connection:
        channel.exchange_declare(name, "topic", durable=True)
        channel.queue_declare(f"{name}-q", durable=True)
        channel.queue_bind(f"{name}-q", name, "eu.#")
        send(connection.create_sender(f"/exchanges/{name}/eu.d%65"), "hello")
        wait_for(channel, f"{name}-q", 1)
        method, _, body = channel.basic_get(f"{name}-q", auto_ack=True)
        assert (method.routing_key, body) == ("eu.de", b"hello")


def test_each_message_may_say_where_it_goes(node: RunningNode, name: str) -> None:
    with connected(node) as channel, opened(node) as connection:
        channel.queue_declare(name, durable=True)
        assert outcome(connection, None, address=f"/queues/{name}", body="x") == Delivery.ACCEPTED
        assert outcome(connection, None, address="/queues/none", body="x") == Delivery.REJECTED
        assert outcome(connection, None, body="x") == Delivery.REJECTED
        assert take(channel, name, 1) == [("x", False)]


def test_what_nobody_wants_and_nothing_keeps_is_released(node: RunningNode, name: str) -> None:
    with connected(node) as channel, opened(node) as connection:
        channel.exchange_declare(name, "fanout")
        assert outcome(connection, f"/exchanges/{name}", body="x") == Delivery.RELEASED
        channel.exchange_declare(f"{name}-kept", "fanout", durable=True)
        address = f"/exchanges/{name}-kept"
        assert outcome(connection, address, body="x") == Delivery.ACCEPTED
        topic = httpx.get(f"{node.http}/v1/topics/{name}-kept/records", timeout=60).json()
        assert len(topic["records"]) == 1


def test_a_full_queue_rejects(node: RunningNode, name: str) -> None:
    limits = {"x-max-length": 1, "x-overflow": "reject-publish"}
    with connected(node) as channel, opened(node) as connection:
        channel.queue_declare(name, durable=True, arguments=limits)
        address = f"/queues/{name}"
        assert outcome(connection, address, body="a") == Delivery.ACCEPTED
        wait_for(channel, name, 1)
        assert outcome(connection, address, body="b") == Delivery.REJECTED


@pytest.mark.parametrize(
    ("link", "condition"),
    [
        ({"target": "/queues/none"}, "amqp:not-found"),
        ({"source": "/queues/none"}, "amqp:not-found"),
        ({"target": "/exchanges/none/k"}, "amqp:not-found"),
        ({"source": "/exchanges/amq.topic/k"}, "amqp:not-allowed"),
        ({"target": "/elsewhere"}, "amqp:invalid-field"),
        ({"target": "/queues/a/b"}, "amqp:invalid-field"),
        ({"target": "/queues/%ff"}, "amqp:invalid-field"),
        ({"target": "x" * 256}, "amqp:invalid-field"),
    ],
)
def test_a_link_to_nowhere_is_refused(
    node: RunningNode, link: dict[str, str], condition: str
) -> None:
    """E4: link errors by condition names; the connection goes on."""
    with opened(node) as connection:
        assert condition in refusal(connection, **link)
        assert condition in refusal(connection, **link)


def test_an_exclusive_queue_is_its_owners(node: RunningNode, name: str) -> None:
    with connected(node) as channel, opened(node) as connection:
        channel.queue_declare(name, exclusive=True)
        assert "amqp:resource-locked" in refusal(connection, source=f"/queues/{name}")


def test_a_dynamic_source_is_a_queue_of_the_connection(node: RunningNode) -> None:
    with opened(node) as connection, opened(node) as other:
        receiver: Any = connection.create_receiver(None, dynamic=True, credit=5)
        address = receiver.link.remote_source.address
        send(other.create_sender(address), "answer")
        assert receive(receiver, 1) == ["answer"]
        connection.close()
        queue = address.removeprefix("/queues/")
        wait_until(lambda: queue not in httpx.get(f"{node.http}/v1/queues", timeout=60).text)


def test_the_queue_capability_makes_a_queue(node: RunningNode, name: str) -> None:
    class Queue:
        def test(self, sender: Any) -> bool:
            return True

        def apply(self, sender: Any) -> None:
            sender.target.capabilities.put_object(symbol("queue"))

    wanted: Any = Queue()
    with connected(node) as channel, opened(node) as connection:
        send(connection.create_sender(name, options=wanted), "x")
        assert take(channel, name, 1) == [("x", False)]


def test_a_queue_that_is_deleted_ends_its_links(node: RunningNode, name: str) -> None:
    with connected(node) as channel, opened(node) as connection:
        channel.queue_declare(name, durable=True)
        receiver = connection.create_receiver(f"/queues/{name}", credit=5)
        channel.queue_delete(name)
        with pytest.raises(Exception, match="amqp:resource-deleted"):
            next_of(receiver)


# Settlement.


def test_outcomes_decide_what_becomes_of_a_message(node: RunningNode, name: str) -> None:
    """E4: accepted, rejected, released and modified, with delivery counts."""
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{name}-dead"}
    with connected(node) as channel, opened(node) as connection:
        channel.queue_declare(f"{name}-dead", durable=True)
        channel.queue_declare(name, durable=True, arguments=arguments)
        publish(channel, "", name, "m")
        receiver: Any = connection.create_receiver(f"/queues/{name}", credit=0)
        seen = []
        for state, failed in (
            (Delivery.RELEASED, False),
            (Delivery.MODIFIED, True),
            (Delivery.MODIFIED, False),
            (Delivery.REJECTED, False),
        ):
            receiver.flow(1)
            message = next_of(receiver)
            seen.append((message.delivery_count, message.first_acquirer))
            delivery = receiver.fetcher.unsettled.popleft()
            delivery.local.failed = failed
            delivery.update(state)
            delivery.settle()
        assert seen == [(0, True), (0, False), (1, False), (1, False)]
        publish(channel, "", name, "last")
        receiver.flow(1)
        assert receive(receiver, 1) == [b"last"]
        assert take(channel, f"{name}-dead", 1) == [("m", False)]
        connection.close()
        wait_for(channel, name, 0)


def test_what_is_not_settled_comes_again_to_others(node: RunningNode, name: str) -> None:
    with connected(node) as channel:
        channel.queue_declare(name, durable=True)
        publish(channel, "", name, "a", "b", "c")
        with opened(node) as connection:
            receiver = connection.create_receiver(f"/queues/{name}", credit=3)
            assert [body_of(next_of(receiver)) for _ in range(3)] == [b"a", b"b", b"c"]
            receiver.accept()
        assert take(channel, name, 2) == [("b", True), ("c", True)]
        wait_for(channel, name, 0)


def test_a_presettled_link_gets_each_message_once(node: RunningNode, name: str) -> None:
    """E4: settlement modes."""
    with connected(node) as channel, opened(node) as connection:
        channel.queue_declare(name, durable=True)
        publish(channel, "", name, "a", "b")
        receiver = connection.create_receiver(f"/queues/{name}", credit=2, options=AtMostOnce())
        assert [body_of(next_of(receiver)) for _ in range(2)] == [b"a", b"b"]
        connection.close()
        wait_for(channel, name, 0)


def test_a_presettled_message_is_stored_without_an_answer(node: RunningNode, name: str) -> None:
    with connected(node) as channel:
        channel.queue_declare(name, durable=True)
        with opened(node) as connection:  # which sends them at its end
            send(connection.create_sender(f"/queues/{name}", options=AtMostOnce()), "a", "b")
        assert take(channel, name, 2) == [("a", False), ("b", False)]


def test_many_messages_keep_their_order_and_credit_is_given_again(
    node: RunningNode, name: str
) -> None:
    with connected(node) as channel, opened(node) as connection:
        channel.queue_declare(name, durable=True)
        sender = connection.create_sender(f"/queues/{name}", options=AtMostOnce())
        bodies = [str(number) for number in range(3000)]
        send(sender, *bodies)
        receiver = connection.create_receiver(f"/queues/{name}", credit=100)
        assert receive(receiver, 3000) == bodies


# Credit.


def test_no_more_comes_than_there_is_credit_for(node: RunningNode, name: str) -> None:
    """E4: credit and drain."""
    with connected(node) as channel, opened(node) as connection:
        channel.queue_declare(name, durable=True)
        publish(channel, "", name, *"abc")
        wait_for(channel, name, 3)
        receiver: Any = connection.create_receiver(f"/queues/{name}", credit=0)
        link = receiver.link
        link.flow(2)
        connection.wait(lambda: len(receiver.fetcher.incoming) == 2, timeout=TIMEOUT_S)
        link.drain(5)
        connection.wait(lambda: link.credit == 0, timeout=TIMEOUT_S)
        assert len(receiver.fetcher.incoming) == 3
        publish(channel, "", name, "later")
        wait_for(channel, name, 1)


# Topics.


def test_a_topic_is_read_by_each_for_itself(node: RunningNode, name: str) -> None:
    with opened(node) as connection:
        sender = connection.create_sender(name)
        send(sender, "a", "b")
        first = connection.create_receiver(name, name="one", credit=9, options=starting_at("first"))
        second = connection.create_receiver(
            name, name="two", credit=9, options=starting_at("first")
        )
        third = connection.create_receiver(name, name="three", credit=9, options=starting_at(1))
        last = connection.create_receiver(name, name="four", credit=9, options=starting_at("last"))
        new = connection.create_receiver(name, name="five", credit=9)
        send(sender, "c")
        assert receive(first, 3) == receive(second, 3) == ["a", "b", "c"]
        assert receive(third, 2) == receive(last, 2) == ["b", "c"]
        found = next_of(new)
        assert (found.body, found.annotations["x-stream-offset"]) == ("c", 2)


def test_a_durable_reader_goes_on_where_it_was(node: RunningNode, name: str) -> None:
    durable: dict[str, Any] = {"name": "reader", "credit": 1, "options": DurableSubscription()}
    with opened(node, container_id=name) as connection:
        connection.create_receiver(name, **durable)
    with opened(node) as connection:
        send(connection.create_sender(name), "a", "b", "c")
    with opened(node, container_id=name) as connection:
        assert receive(connection.create_receiver(name, **durable), 2) == ["a", "b"]

    def committed() -> list[int]:
        lag = httpx.get(f"{node.http}/v1/groups/{name}:reader/lag", timeout=60).json()
        return [one["committed"] for one in lag["partitions"]]

    wait_until(lambda: committed() == [2])
    with opened(node, container_id=name) as connection:
        assert receive(connection.create_receiver(name, **durable), 1) == ["c"]


def test_names_with_levels_are_those_of_mqtt(node: RunningNode, name: str) -> None:
    with opened(node) as connection:
        receiver = connection.create_receiver(f"{name}/+/temperature", credit=5)
        send(connection.create_sender(f"{name}/oven/pressure"), "9")
        send(connection.create_sender(f"{name}/oven/temperature"), "80")
        assert receive(receiver, 1) == ["80"]
        record = httpx.get(f"{node.http}/v1/topics/{name}.oven/records", timeout=60).json()[
            "records"
        ][0]
        assert record["key"] == "pressure"


def test_the_subject_is_the_key_of_a_topics_record(node: RunningNode, name: str) -> None:
    with opened(node) as connection:
        connection.create_sender(name).send(Message(body=b"v", subject="k", inferred=True))
        record = httpx.get(f"{node.http}/v1/topics/{name}/records", timeout=60).json()["records"][0]
        assert (record["key"], record["value"]) == ("k", "v")


def test_a_topic_that_is_deleted_ends_its_links(node: RunningNode, name: str) -> None:
    with opened(node) as connection:
        send(connection.create_sender(name), "a")
        receiver = connection.create_receiver(name, credit=5)
        httpx.delete(f"{node.http}/v1/topics/{name}", timeout=60).raise_for_status()
        with pytest.raises(Exception, match="amqp:resource-deleted"):
            next_of(receiver)


def test_partitions_that_are_added_are_read_too(node: RunningNode, name: str) -> None:
    body = {"name": name, "partitions": 1}
    httpx.post(f"{node.http}/v1/topics", json=body, timeout=60).raise_for_status()
    with opened(node) as connection:
        receiver = connection.create_receiver(name, credit=50)
        more = {"count": 8}
        httpx.put(
            f"{node.http}/v1/topics/{name}/partitions", json=more, timeout=60
        ).raise_for_status()
        sender = connection.create_sender(name)
        for number in range(20):
            sender.send(Message(body=str(number), subject=f"key-{number}"))
        assert sorted(receive(receiver, 20), key=int) == [str(number) for number in range(20)]
