"""The plain length-prefixed protocol on a real node, with plain sockets."""

import select
import socket
import struct
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.fronts.framed.client import Client
from tests.running_node import RunningNode

Connect = Callable[..., Client]


@pytest.fixture
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    clients: list[Client] = []

    def connect(hello: str = "", to: RunningNode | None = None) -> Client:
        node = to or request.getfixturevalue("node")
        clients.append(Client(node.framed_address, hello))
        return clients[-1]

    yield connect
    for client in clients:
        client.close()


def produced(connect: Connect, topic: str, messages: list[bytes], **to: RunningNode) -> None:
    """Send messages and return when each is acknowledged."""
    producer = connect(f"PRODUCER topic={topic} ack=each", **to)
    producer.send(*messages)
    assert all(answer.startswith(b"ACK ") for answer in producer.take(len(messages)))
    producer.close()


def numbers(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def test_each_message_is_acknowledged_with_its_offset(connect: Connect, name: str) -> None:
    """B1, B2: a producer that asks for it knows where its message lies."""
    producer = connect(f"PRODUCER topic={name} ack=each")
    producer.send(b"a", b"", b"c" * 100_000)
    assert producer.take(3) == [b"ACK 0", b"ACK 1", b"ACK 2"]


def test_every_consumer_gets_each_message(connect: Connect, name: str) -> None:
    """B3, A2, A3: broadcast; each consumer has an index of its own."""
    produced(connect, name, [b"before"])
    consumers = [connect(f"CONSUMER topic={name} mode=broadcast start=earliest") for _ in range(3)]
    produced(connect, name, numbers(500))
    for consumer in consumers:
        assert consumer.take(501) == [b"before", *numbers(500)]


def test_a_queue_gives_each_message_to_one_consumer(connect: Connect, name: str) -> None:
    """B3, A3: a shared index."""
    first = connect(f"CONSUMER topic={name} mode=queue")
    second = connect(f"CONSUMER topic={name} mode=queue")
    produced(connect, name, numbers(10))
    consumers = {one.socket: one for one in (first, second)}
    got: list[bytes] = []
    while len(got) < 10:
        ready = select.select(consumers, [], [], 60)[0]
        assert ready, f"{len(got)} of 10 messages came"
        for consumer in map(consumers.__getitem__, ready):
            got.append(consumer.receive())
            consumer.send(b"ACK")
    assert sorted(got, key=int) == numbers(10)


def test_what_a_dead_consumer_did_not_acknowledge_goes_to_another(
    connect: Connect, name: str
) -> None:
    """B3, D8: nothing is lost with a consumer."""
    produced(connect, name, numbers(10))
    dead = connect(f"CONSUMER topic={name} mode=queue")
    assert dead.take(10) == numbers(10)
    dead.send(b"ACK", b"ACK", b"ACK")
    dead.close()
    assert connect(f"CONSUMER topic={name} mode=queue").take(7) == numbers(7, 3)


def test_a_consumer_that_was_away_resumes_where_it_stopped(
    connect: Connect, own_node: RunningNode
) -> None:
    """A5, D9: under its name, also after a crash of the node."""
    topic = "away"
    consumer = connect(f"CONSUMER topic={topic} name=reader start=earliest", own_node)
    producer = connect(f"PRODUCER topic={topic} ack=each", own_node)
    producer.send(*numbers(100))
    producer.take(100)
    assert consumer.take(100) == numbers(100)
    consumer.send(*[b"ACK"] * 60)
    consumer.socket.shutdown(socket.SHUT_WR)
    with pytest.raises(EOFError):
        consumer.receive()
    own_node.restart()
    again = connect(f"CONSUMER topic={topic} name=reader", own_node)
    assert again.take(40) == numbers(40, 60)


def test_messages_are_ordinary_records(connect: Connect, node: RunningNode, name: str) -> None:
    """B3, X1: other fronts see the same messages, and their messages come here."""
    produced(connect, name, [b"framed \xff"])
    reader = Consumer({"bootstrap.servers": node.bootstrap, "group.id": name})
    reader.assign([TopicPartition(name, 0, 0)])
    message = reader.poll(60)
    assert message is not None
    assert message.value() == b"framed \xff"
    reader.close()
    kafka = Producer({"bootstrap.servers": node.bootstrap})
    kafka.produce(name, b"kafka")
    kafka.flush()
    assert connect(f"CONSUMER topic={name} start=earliest").take(2) == [b"framed \xff", b"kafka"]


@pytest.mark.parametrize("first", [b"", b"HELLO", b"\xff\xfe", b"CONSUMER color=red"])
def test_a_wrong_first_frame_is_answered_with_an_error(connect: Connect, first: bytes) -> None:
    """B1: refused with a clear error frame, then the connection ends."""
    client = connect()
    client.send(first)
    assert client.receive().startswith(b"ERROR ")
    with pytest.raises(EOFError):
        client.receive()


def test_a_frame_over_the_limit_is_refused_before_its_body(connect: Connect, name: str) -> None:
    """B2: a limit on size."""
    client = connect(f"PRODUCER topic={name}")
    client.socket.sendall(struct.pack(">i", 100_000_000))
    assert b"limit" in client.receive()


def test_one_consumer_too_many_is_refused(connect: Connect, own_node: RunningNode) -> None:
    """B4: MAX_CONSUMERS is 10."""
    clients = [connect("CONSUMER start=earliest", own_node) for _ in range(10)]
    producer = connect("PRODUCER", own_node)
    producer.send(b"x")
    for client in clients:
        assert client.receive() == b"x"
    refused = connect("CONSUMER", own_node)
    assert b"MAX_CONSUMERS" in refused.receive()


def test_a_full_queue_answers_the_producer_with_an_error(
    connect: Connect, start_node: Callable[..., RunningNode]
) -> None:
    """B5: it never drops silently."""
    node = start_node({"framed.delivery_mode": "queue", "framed.queue_max": "5"})
    consumer = connect("CONSUMER topic=q", node)
    producer = connect("PRODUCER topic=q ack=each", node)
    producer.send(*numbers(5))
    assert producer.take(5)[-1].startswith(b"ACK")
    assert consumer.take(5) == numbers(5)
    producer.send(b"six")
    assert producer.receive().startswith(b"ERROR the queue is full")
    consumer.send(*[b"ACK"] * 5)
    answer = b"ERROR"
    while answer.startswith(b"ERROR"):
        producer.send(b"six")
        answer = producer.receive()
    assert consumer.receive() == b"six"


@pytest.mark.parametrize("policy", ["wait", "drop"])
def test_a_consumer_without_room_is_waited_for_or_skipped_as_chosen(
    connect: Connect, start_node: Callable[..., RunningNode], policy: str
) -> None:
    """B5: nothing is lost by default; dropping is counted."""
    settings = {"framed.consumer_buffer_size": "10", "framed.when_full": policy}
    node = start_node(settings)
    consumer = connect("CONSUMER topic=t start=earliest", node)
    producer = connect("PRODUCER topic=t ack=each", node)
    producer.send(*numbers(10))
    producer.take(10)
    assert consumer.take(10) == numbers(10)
    producer.send(*numbers(90, 10))
    producer.take(90)
    if policy == "drop":
        while node.metric("chordmq_framed_messages_dropped_total") < 90:
            pass
    consumer.send(*[b"ACK"] * 10)
    producer.send(b"last")
    producer.take(1)
    expected = b"10" if policy == "wait" else b"last"
    assert consumer.receive() == expected
