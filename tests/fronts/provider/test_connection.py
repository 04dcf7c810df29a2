"""The provider's binary protocol on a real node, with plain sockets."""

import json
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator

import httpx
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.fronts.provider.client import (
    ACK,
    COMMIT_OFFSET,
    DATA,
    DISCONNECT,
    HEARTBEAT,
    READY,
    RESET,
    SUBSCRIBE,
    Client,
    data,
    message,
)
from tests.running_node import RunningNode

Connect = Callable[..., Client]

MALFORMED, UNKNOWN, NOT_HELD, REFUSED = 1, 4, 7, 8
UNAVAILABLE, SILENT = 9, 10


@pytest.fixture
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Give a function that connects clients to a node."""
    clients: list[Client] = []

    def connect(to: RunningNode | None = None) -> Client:
        node = to or request.getfixturevalue("node")
        clients.append(Client(node.provider_address))
        return clients[-1]

    yield connect
    for client in clients:
        client.close()


def numbers(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def create(node: RunningNode, topic: str, partitions: int = 1) -> None:
    body = {"name": topic, "partitions": partitions}
    assert httpx.post(f"{node.http}/v1/topics", json=body, timeout=60).status_code == 201


def values(client: Client, count: int) -> list[bytes | None]:
    return [one.value for one in client.take(count)]


def test_what_is_published_is_acknowledged_with_its_place(connect: Connect, name: str) -> None:
    """D7: DATA from a client, ACK from the node."""
    client = connect()
    assert client.publish(name, b"a", None, b"", b"c" * 100_000) == [(0, n) for n in range(4)]
    assert client.publish(name, b"a", None, b"", b"c") == [(0, n) for n in range(4, 8)]


def test_a_message_is_pushed_with_everything_it_has(connect: Connect, name: str) -> None:
    """D7, X1: key, headers, time, missing values."""
    client = connect()
    headers = (("a", b"1"), ("b", None), ("a", b"\xff"))
    client.publish(name, b"v", key=b"\x00k", headers=headers, timestamp=1_700_000_000_123)
    client.publish(name, None, key=b"")
    client.subscribe(name)
    first, second = client.take(2)
    assert first == (0, 1, 1_700_000_000_123, b"\x00k", headers, b"v")
    assert second[3:] == (b"", (), None)


def test_a_waiting_consumer_gets_a_new_message_at_once(connect: Connect, name: str) -> None:
    """D8: pushed, not polled."""
    writer, reader = connect(), connect()
    writer.publish(name, b"first")
    reader.subscribe(name, **{"from": "latest"})
    for number in range(50):
        writer.publish(name, b"%d" % number)
        assert values(reader, 1) == [b"%d" % number]


def test_no_more_is_pushed_than_there_is_credit_for(connect: Connect, name: str) -> None:
    """D8: an acknowledgement makes room for the next message."""
    writer, reader = connect(), connect()
    writer.publish(name, *numbers(10))
    reader.subscribe(name, credit=3)
    taken = reader.take(3)
    reader.send(HEARTBEAT, 9)
    assert reader.receive().kind == HEARTBEAT, "the answer overtakes nothing: no more was pushed"
    reader.acknowledge(taken[1].id)
    assert values(reader, 1) == [b"3"]
    reader.send(ACK, taken[0].id, struct.pack(">BQ", 1, taken[2].id))
    assert values(reader, 2) == [b"4", b"5"]


@pytest.mark.parametrize("index", ["own", "shared"])
def test_what_is_not_acknowledged_in_time_comes_again(
    connect: Connect, name: str, index: str
) -> None:
    """D8: to the same consumer under the same id, with a higher count of deliveries."""
    writer, reader = connect(), connect()
    writer.publish(name, *numbers(3))
    reader.subscribe(name, group=name, index=index, credit=3, ack_timeout_ms=3000)
    first = reader.take(3)
    assert [one.deliveries for one in first] == [1, 1, 1]
    reader.acknowledge(first[1].id)
    again = sorted(reader.take(2))
    assert [one.id for one in again] == [first[0].id, first[2].id]
    assert [one.deliveries for one in again] == [2, 2]


def test_a_shared_message_goes_to_another_when_its_consumer_leaves(
    connect: Connect, name: str
) -> None:
    """D8, A3: what a dead consumer held is not lost."""
    writer, dead, alive = connect(), connect(), connect()
    writer.publish(name, *numbers(10))
    dead.subscribe(name, group=name, index="shared")
    taken = dead.take(10)
    dead.acknowledge(*(one.id for one in taken[:4]))
    dead.send(HEARTBEAT, 9)
    assert dead.receive().kind == HEARTBEAT
    dead.close()
    alive.subscribe(name, group=name, index="shared")
    assert values(alive, 6) == numbers(6, 4)


def test_a_committed_offset_outlives_the_node(connect: Connect, own_node: RunningNode) -> None:
    """D9, A5: COMMIT_OFFSET is answered when it is durable."""
    client = connect(own_node)
    client.publish("kept", *numbers(10))
    client.subscribe("kept", group="g")
    client.take(10)
    assert client.commit(0, 6).status == 0
    own_node.restart()
    client = connect(own_node)
    assert client.subscribe("kept", group="g") == {"0": 6}
    assert values(client, 4) == numbers(4, 6)


def test_settled_messages_of_a_shared_index_outlive_the_node(
    connect: Connect, own_node: RunningNode
) -> None:
    """D9: the shared index is durable, message by message."""
    client = connect(own_node)
    client.publish("kept", *numbers(6))
    client.subscribe("kept", group="g", index="shared")
    taken = client.take(6)
    client.acknowledge(taken[0].id, taken[1].id, taken[4].id)
    deadline = time.monotonic() + 60
    while httpx.get(f"{own_node.http}/v1/consumers", timeout=60).json()["consumers"][0]["lag"] != 3:
        assert time.monotonic() < deadline
    own_node.restart()
    client = connect(own_node)
    client.subscribe("kept", group="g", index="shared")
    assert values(client, 3) == [b"2", b"3", b"5"]


def test_a_refresh_comes_as_reset_data_ready(
    connect: Connect, name: str, node: RunningNode
) -> None:
    """D7: the markers lie in the log, in order with the data, and survive in it."""
    create(node, name, partitions=2)
    parent = connect()
    parent.publish(name, b"old", key=b"k")
    marker = {"topic": name, "data_set": "prices", "refresh": "2026-01-01"}
    parent.send(RESET, 1, json.dumps(marker).encode())
    for number, key in enumerate(b"abcdef", 2):
        parent.send(DATA, number, data(name, b"new", key=bytes([key])))
    parent.send(READY, 9, json.dumps(marker).encode())
    assert {parent.receive().status for _ in range(8)} == {0}
    child = connect()
    child.subscribe(name)
    kinds: dict[int, list[int]] = {0: [], 1: []}
    for _ in range(11):
        pushed = child.push()
        kinds[pushed.place[0]].append(pushed.kind)
        if pushed.kind != DATA:
            assert json.loads(pushed.payload) == marker | {"partitions": 2}
    for found in kinds.values():
        found = found[1:] if found[0] == DATA else found
        assert found[0] == RESET
        assert found[-1] == READY
        assert set(found[1:-1]) == {DATA}


def test_both_sides_give_signs_of_life(connect: Connect, name: str) -> None:
    """D7: a HEARTBEAT is answered under its own id."""
    client = connect()
    client.send(HEARTBEAT, 42)
    assert client.receive()[:2] == (HEARTBEAT, 42)
    client.send(DISCONNECT, 43)
    assert client.receive().kind == DISCONNECT
    with pytest.raises(EOFError):
        client.receive()


def test_a_silent_client_is_told_and_disconnected(
    connect: Connect, start_node: Callable[..., RunningNode]
) -> None:
    """D7: the node gives signs of life, and wants some."""
    settings = {"provider.idle_timeout_s": "0.5", "provider.heartbeat_interval_s": "0.1"}
    client = connect(start_node(settings))
    client.send(HEARTBEAT, 1)
    assert client.receive().id == 1
    assert client._exactly(13) == struct.pack(">BQi", HEARTBEAT, 0, 0)
    last = client.receive()
    assert (last.kind, last.status) == (DISCONNECT, SILENT)
    assert "HEARTBEAT" in last.text


def test_other_fronts_see_the_same_messages(connect: Connect, name: str, node: RunningNode) -> None:
    """X1: published here, consumed by Kafka, and the other way round."""
    client = connect()
    client.publish(name, b"here", key=b"k")
    producer = Producer({"bootstrap.servers": node.bootstrap})
    producer.produce(name, b"there")
    producer.flush(60)
    client.subscribe(name)
    assert values(client, 2) == [b"here", b"there"]
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": name})
    consumer.assign([TopicPartition(name, 0, 0)])
    found = consumer.consume(2, 60)
    consumer.close()
    assert [(one.key(), one.value()) for one in found] == [(b"k", b"here"), (None, b"there")]


@pytest.mark.parametrize(
    ("kind", "payload", "status", "text"),
    [
        (SUBSCRIBE, b'{"topic": "nowhere"}', UNKNOWN, "nowhere"),
        (SUBSCRIBE, b"{", MALFORMED, "SUBSCRIBE"),
        (SUBSCRIBE, b'{"topic": "t", "index": "both"}', MALFORMED, "both"),
        (SUBSCRIBE, b'{"topic": "t", "more": 1}', MALFORMED, "more"),
        (SUBSCRIBE, b'{"topic": "t", "index": "shared"}', MALFORMED, "group"),
        (SUBSCRIBE, b'{"topic": "t", "credit": -1}', MALFORMED, "credit"),
        (SUBSCRIBE, b'{"topic": "t", "from": "never"}', MALFORMED, "earliest"),
        (COMMIT_OFFSET, struct.pack(">iq", 0, 1), MALFORMED, "subscribe"),
        (RESET, b"{}", MALFORMED, "topic"),
        (DATA, b"\x00\x05topic", MALFORMED, "DATA"),
        (DATA, data("t", b"", partition=70_000), MALFORMED, "partitions"),
        (DATA, data("no/such name", b""), MALFORMED, "name"),
        (DATA, data("__consumer_offsets", b""), REFUSED, "broker's own"),
    ],
)
def test_a_refused_frame_says_what_is_wrong_with_it(
    connect: Connect, kind: int, payload: bytes, status: int, text: str
) -> None:
    """D7: an ACK with a status and a text; the connection goes on."""
    client = connect()
    client.publish("t", b"there is such a topic")
    client.send(kind, 99, payload)
    answer = client.answer(99)
    assert (answer.status, text in answer.text) == (status, True), answer.text
    client.send(HEARTBEAT, 3)
    assert client.receive().id == 3


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        (struct.pack(">BQi", 9, 1, 0), "type"),
        (struct.pack(">BQi", 0, 1, 0), "type"),
        (struct.pack(">BQi", DATA, 1, -5), "limit"),
        (struct.pack(">BQi", DATA, 1, 2**31 - 1), "limit"),
        (struct.pack(">BQi", ACK, 1, 0), "acknowledged"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "limit"),
    ],
)
def test_a_frame_that_makes_no_sense_ends_the_connection_with_a_reason(
    connect: Connect, sent: bytes, text: str
) -> None:
    """D7: DISCONNECT says why."""
    client = connect()
    client.socket.sendall(sent)
    last = client.receive()
    assert (last.kind, last.status) == (DISCONNECT, MALFORMED)
    assert text in last.text
    with pytest.raises(EOFError):
        client.receive()


def test_a_message_that_is_not_held_is_not_acknowledged(connect: Connect, name: str) -> None:
    """D8: said under the id of the message."""
    client = connect()
    client.publish(name, b"one")
    client.subscribe(name)
    (one,) = client.take(1)
    client.acknowledge(one.id, one.id, 12345)
    assert client.answer(one.id).status == NOT_HELD
    assert client.answer(12345).status == NOT_HELD


def test_a_range_of_any_size_costs_nothing(connect: Connect, name: str) -> None:
    """A hostile acknowledgement of 2^47 messages is answered at once."""
    client = connect()
    client.publish(name, *numbers(5))
    client.subscribe(name)
    client.take(5)
    client.send(ACK, 0, struct.pack(">BQ", 1, 1 << 47))
    client.send(HEARTBEAT, 3)
    assert client.receive().id == 3


def test_remote_consumers_are_listed_while_they_are_connected(
    connect: Connect, name: str, node: RunningNode
) -> None:
    """D9: the registry of remote consumers, with what they hold and how far they are."""
    client = connect()
    client.publish(name, *numbers(5))
    client.subscribe(name, group=name, credit=2, client="till 7")
    client.take(2)

    def mine() -> list[dict[str, object]]:
        found = httpx.get(f"{node.http}/v1/consumers", timeout=60).json()["consumers"]
        return [one for one in found if one["topic"] == name]

    (found,) = mine()
    assert found["name"] == "till 7"
    assert found["protocol"] == "provider"
    assert (found["credit"], found["unacknowledged"], found["delivered"]) == (2, 2, 2)
    assert (found["lag"], found["offsets"]) == (3, {"0": 2})
    client.close()
    deadline = time.monotonic() + 60
    while mine():
        assert time.monotonic() < deadline


def test_a_rejected_message_goes_to_the_dead_letter_topic(connect: Connect, name: str) -> None:
    """D8: given up after so many deliveries, or at once."""
    client = connect()
    client.publish(name, b"poison", b"good")
    client.subscribe(name, group=name, index="shared", deliveries_max=2, dead_letter=f"{name}.dlq")
    poison, good = client.take(2)
    client.acknowledge(good.id)
    client.send(ACK, poison.id, b"\x02")
    (again,) = client.take(1)
    assert (again.id, again.deliveries) == (poison.id, 2)
    client.send(ACK, again.id, b"\x03")
    reader = connect()
    reader.subscribe(f"{name}.dlq")
    assert values(reader, 1) == [b"poison"]


@pytest.mark.parametrize(
    ("start", "first"), [("earliest", 0), ("latest", 10), (4, 4), ({"0": 7}, 7)]
)
def test_a_consumer_begins_where_it_says(
    connect: Connect, name: str, start: object, first: int
) -> None:
    """D7: SUBSCRIBE with an offset."""
    client = connect()
    client.publish(name, *numbers(10))
    assert client.subscribe(name, **{"from": start}) == {"0": first}
    client.publish(name, b"10")
    assert message(client.push()).value == b"%d" % first


def test_a_consumer_without_acknowledgements_gets_everything(connect: Connect, name: str) -> None:
    """D8: credit 0; the socket is the only bound."""
    client = connect()
    client.publish(name, *numbers(3_000))
    client.subscribe(name, credit=0, group=name)
    assert values(client, 3_000) == numbers(3_000)
    assert client.commit(0, 3_000).status == 0


def test_who_sends_no_more_still_gets_its_answers(connect: Connect, name: str) -> None:
    """D7: a client that has closed its half is served to the end."""
    client = connect()
    for number in range(100):
        client.send(DATA, number, data(name, b"v"))
    client.socket.shutdown(socket.SHUT_WR)
    assert [client.receive().id for _ in range(100)] == list(range(100))
    assert client.receive().kind == DISCONNECT
    with pytest.raises(EOFError):
        client.receive()


def test_clients_are_told_that_the_node_stops(connect: Connect, own_node: RunningNode) -> None:
    """C10: an orderly end."""
    client = connect(own_node)
    client.publish("t", b"v")
    client.subscribe("t")
    client.take(1)
    own_node.send_signal(signal.SIGTERM)
    last = client.receive()
    assert (last.kind, last.status) == (DISCONNECT, UNAVAILABLE)
    assert own_node.wait() == 0
