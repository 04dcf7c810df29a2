"""Subscriptions: filters, retained messages, groups, queues and streams."""

import time
from select import select

import httpx
import pytest

from chordmq.codecs.mqtt.properties import Properties
from tests.conftest import StartNode
from tests.fronts.mqtt.client import Client, Message, packet, text
from tests.fronts.mqtt.conftest import Connect
from tests.running_node import RunningNode

KEPT = Properties(session_expiry_s=600)


@pytest.mark.parametrize(
    ("wanted", "topic"),
    [("a/+/c", "a/b/c"), ("a/#", "a"), ("a/#", "a/b/c/d"), ("+/+", "/x"), ("/+", "/x"), ("+", "y")],
)
def test_wildcards_match(connect: Connect, name: str, wanted: str, topic: str) -> None:
    """E2: MQTT-4.7.1."""
    reader, writer = connect(), connect()
    wanted, topic = wanted.replace("a", name).replace("y", name), topic.replace("a", name)
    topic = topic.replace("y", name)
    reader.subscribe(wanted, qos=1)
    writer.publish(topic, name.encode(), 1)
    while reader.message().payload != name.encode():
        pass  # other tests publish to short names as well


def test_wildcards_do_not_match_the_brokers_names(connect: Connect) -> None:
    """E2: MQTT-4.7.2-1: `#` and `+/...` do not see $SYS, which tells its values at once."""
    client = connect()
    client.subscribe("+/broker/uptime")
    client.subscribe("$SYS/broker/uptime")
    found = client.message()
    assert (found.topic, found.retain) == ("$SYS/broker/uptime", True)
    assert found.payload.endswith(b" seconds")


def test_sys_topics_are_told_from_time_to_time(start_node: StartNode, connect: Connect) -> None:
    node = start_node({"mqtt.sys_interval_s": "0.5"})
    client = connect(to=node)
    client.subscribe("$SYS/broker/clients/connected")
    assert [client.message().payload for _ in range(3)] == [b"1"] * 3


@pytest.mark.parametrize(
    "wanted", ["a/b#", "a/#/b", "a+/b", "", "$share/g", "$share//a", "$share/+/a"]
)
def test_a_filter_that_is_none_is_refused(connect: Connect, name: str, wanted: str) -> None:
    """E3: MQTT-4.7.1-2, -3, MQTT-4.8.2-1, -2: the others of the packet count."""
    client = connect()
    assert client.subscribe(f"{name}/a", wanted, f"{name}/b", qos=1) == [1, 0x8F, 1]


def test_an_unsubscribed_filter_brings_nothing(connect: Connect, name: str) -> None:
    """E3: MQTT-3.10.4."""
    reader, writer = connect(), connect()
    reader.subscribe(f"{name}/a", f"{name}/b", qos=1)
    assert reader.unsubscribe(f"{name}/a", f"{name}/c") == [0, 0x11]
    writer.publish(f"{name}/a", b"1", 1)
    writer.publish(f"{name}/b", b"2", 1)
    assert reader.messages(1) == [b"2"]


def test_retained_messages_come_first(connect: Connect, name: str) -> None:
    """E3: MQTT-3.3.1-5 to -8: the newest of each name, marked; an empty one ends it."""
    writer = connect()
    for number in range(3):
        writer.publish(f"{name}/{number}/x", b"old", 1, retain=True)
        writer.publish(f"{name}/{number}/x", b"%d" % number, 1, retain=True)
    writer.publish(f"{name}/1/x", b"", 1, retain=True)
    reader = connect()
    reader.subscribe(f"{name}/+/x", qos=1)
    found = sorted(reader.message()[:4] for _ in range(2))
    assert found == [(f"{name}/0/x", b"0", 1, True), (f"{name}/2/x", b"2", 1, True)]
    assert reader.is_quiet()


@pytest.mark.parametrize(("handling", "counts"), [(0, (1, 1)), (1, (1, 0)), (2, (0, 0))])
def test_retain_handling(connect: Connect, name: str, handling: int, counts: list[int]) -> None:
    """E3: MQTT-3.3.1-9 to -11: always, for new subscriptions, never."""
    connect().publish(f"{name}/a", b"kept", 1, retain=True)
    reader = connect()
    for count in counts:
        reader.subscribe(f"{name}/a", options=handling << 4)
        assert [reader.message().payload for _ in range(count)] == [b"kept"] * count
        assert reader.is_quiet()


def test_a_retained_message_expires(connect: Connect, name: str) -> None:
    """E3: MQTT-3.3.2-5."""
    expiring = Properties(message_expiry_s=1)
    connect().publish(f"{name}/a", b"kept", 1, retain=True, properties=expiring)
    time.sleep(1.1)  # what is to be shown is that time passes
    reader = connect()
    reader.subscribe(f"{name}/a")
    assert reader.is_quiet()


def shared_out(clients: list[Client], count: int) -> list[list[Message]]:
    """Return what each of several clients gets of so many messages."""
    found: list[list[Message]] = [[] for _ in clients]
    while sum(map(len, found)) < count:
        sockets = [one.socket for one in clients]
        ready = [one.socket for one in clients if one.has_more] or select(sockets, [], [], 60)[0]
        assert ready, f"{sum(map(len, found))} of {count} messages came"
        for client, messages in zip(clients, found, strict=True):
            if client.socket in ready:
                messages.append(client.message())
    return found


def test_a_group_gives_each_message_to_one(connect: Connect, name: str) -> None:
    """E3, A3: shared subscriptions on the shared index."""
    members = [connect(f"{name}-{number}") for number in range(3)]
    for member in members:
        assert member.subscribe(f"$share/g-{name}/{name}/#", qos=1) == [1]
    writer, whole = connect(), connect()
    whole.subscribe(f"{name}/#", qos=1)
    for number in range(60):
        writer.publish(f"{name}/a/{number}", b"%d" % number, 1)
    assert len(whole.messages(60)) == 60
    found = [message.payload for one in shared_out(members, 60) for message in one]
    assert sorted(found, key=int) == [b"%d" % number for number in range(60)]


def test_a_groups_backlog_waits_for_any_worker(connect: Connect, name: str) -> None:
    """E3, A5: it outlives all workers, whatever they are called."""
    worker = connect()
    worker.subscribe(f"$share/g/{name}/#", qos=1)
    worker.disconnect()
    writer = connect()
    for number in range(5):
        writer.publish(f"{name}/a", b"%d" % number, 1)
    late = connect()
    late.subscribe(f"$share/g/{name}/#", qos=1)
    assert late.messages(5) == [b"%d" % number for number in range(5)]


def test_what_a_worker_has_not_answered_goes_to_another(connect: Connect, name: str) -> None:
    """E3: MQTT-4.8.2-5, -6."""
    first, writer = connect(), connect()
    first.subscribe(f"$share/g/{name}/#", qos=1)
    writer.publish(f"{name}/a", b"x", 1)
    assert first.message(answers=False).payload == b"x"
    second = connect()
    second.subscribe(f"$share/g/{name}/#", qos=1)
    first.cut()
    assert second.messages(1) == [b"x"]


def test_a_device_stays_with_its_worker(node: RunningNode, connect: Connect, name: str) -> None:
    """E3: affinity by key, while there are partitions for all; who goes leaves its own."""
    body = {"name": f"{name}.devices", "partitions": 4}
    assert httpx.post(f"{node.http}/v1/topics", json=body, timeout=60).status_code == 201
    bound = Properties(user=(("chordmq.affinity", "key"),))
    workers = [connect(f"{name}-{number}") for number in range(2)]
    for worker in workers:
        worker.subscribe(f"$share/g/{name}/devices/#", qos=1, properties=bound)
    writer = connect()
    for number in range(80):
        writer.publish(f"{name}/devices/d{number % 8}/t", b"%d" % number, 1)
    found: list[dict[str, list[int]]] = [{}, {}]
    for messages, devices in zip(shared_out(workers, 80), found, strict=True):
        for message in messages:
            devices.setdefault(message.topic, []).append(int(message.payload))
    assert len(found[0]) + len(found[1]) == 8
    assert all(found)
    assert all(got == sorted(got) for devices in found for got in devices.values())
    workers[0].cut()
    for number in range(8):
        writer.publish(f"{name}/devices/d{number}/t", b"more", 1)
    assert workers[1].messages(8) == [b"more"] * 8


@pytest.mark.parametrize("wanted", ["$share/g/a", "$queue/a"])
def test_no_local_in_a_group_is_an_error(connect: Connect, wanted: str) -> None:
    """E3: MQTT-3.8.3-4: who would take the message, if no other is there?"""
    client = connect()
    client.send(packet(0x82, b"\0\x01\0" + text(wanted) + b"\x04"))
    assert client.ending() == 0x82


def test_a_queue_outlives_its_workers_and_the_node(
    own_node: RunningNode, connect: Connect, name: str
) -> None:
    """E3, A5: `$queue/<name>` is a durable queue of the log topic of that name."""
    to = {"to": own_node}
    worker = connect(**to)
    assert worker.subscribe(f"$queue/{name}", qos=1) == [1]
    writer = connect(**to)
    for number in range(10):
        writer.publish(name, b"%d" % number, 1)
    assert worker.messages(4) == [b"0", b"1", b"2", b"3"]
    worker.disconnect()
    own_node.restart()
    found: set[bytes] = set()
    worker = connect(**to)
    worker.subscribe(f"$queue/{name}", qos=1)
    while not found >= {b"%d" % number for number in range(4, 10)}:
        found.add(worker.message().payload)


def test_a_queue_takes_what_a_filter_matches(connect: Connect, name: str) -> None:
    """E3: `$queue/<name>/<filter>`."""
    worker, writer = connect(), connect()
    worker.subscribe(f"$queue/q-{name}/{name}/+/alarm", qos=1)
    writer.publish(f"{name}/1/ok", b"no", 1)
    writer.publish(f"{name}/2/alarm", b"yes", 1)
    assert worker.messages(1) == [b"yes"]


@pytest.mark.parametrize(
    ("start", "expected"), [("earliest", 10), ("7", 3), ("latest", 0), ("0", 10), ("time", 4)]
)
def test_a_stream_begins_where_it_is_told(
    connect: Connect, name: str, start: str, expected: int
) -> None:
    """E3, A5: `$stream/<name>` with the user property `stream-offset`."""
    writer, reader = connect(), connect()
    middle = ""
    for number in range(10):
        if number == 6:
            time.sleep(0.01)
            middle = str(time.time_ns() // 1_000_000)
        writer.publish(name, b"%d" % number, 1)
    user = (("stream-offset", middle if start == "time" else start),)
    reader.subscribe(f"$stream/{name}", qos=1, properties=Properties(user=user))
    writer.publish(name, b"live", 1)
    wanted = [b"%d" % number for number in range(10 - expected, 10)] + [b"live"]
    assert reader.messages(expected + 1) == wanted


def test_a_stream_can_be_filtered_and_says_where_messages_lie(connect: Connect, name: str) -> None:
    """E3: `chordmq.record: full` brings partition, offset, time and key."""
    writer, reader = connect(), connect()
    for number in range(4):
        writer.publish(f"{name}/s/d{number % 2}", b"%d" % number, 1)
    user = (("stream-offset", "earliest"), ("chordmq.record", "full"))
    reader.subscribe(f"$stream/{name}.s/{name}/s/d1", qos=1, properties=Properties(user=user))
    found = [reader.message() for _ in range(2)]
    assert [one.payload for one in found] == [b"1", b"3"]
    about = dict(found[1].properties.user)
    assert about.pop("chordmq.timestamp").isdigit()
    assert about == {"chordmq.partition": "0", "chordmq.offset": "3", "chordmq.key": "d1"}


def test_a_bad_place_in_a_stream_is_refused(connect: Connect, name: str) -> None:
    client = connect()
    user = (("stream-offset", "yesterday"),)
    assert client.subscribe(f"$stream/{name}", properties=Properties(user=user)) == [0x83]


def test_a_slow_subscriber_holds_a_bounded_part_of_the_node(
    start_node: StartNode, connect: Connect, name: str
) -> None:
    """E3: what does not fit is read from the log when there is room; nothing is lost."""
    node = start_node({"mqtt.pending_max": "500"})
    slow, writer = connect(version=4, to=node), connect(version=4, to=node)
    slow.subscribe(f"{name}/a")
    writer.publish(f"{name}/a", b"x" * 1000, 1)
    before = node.resident_bytes()
    for _ in range(20):
        for _ in range(1000):
            writer.post(f"{name}/a", b"x" * 1000)
        writer.publish(f"{name}/a", b"x" * 1000, 1)
    # The newest of the log stays in memory, whoever reads it; the client adds little.
    assert node.resident_bytes() - before < 20_000_000 + 25_000_000
    assert len(slow.messages(20_021)) == 20_021


def test_a_topic_made_later_is_read_from_its_beginning(connect: Connect, name: str) -> None:
    """E2: a filter reaches log topics that were not there."""
    reader, writer = connect(), connect()
    reader.subscribe(f"{name}/#", qos=1)
    for number in range(5):
        writer.publish(f"{name}/{number}/x", b"%d" % number, 1)
    assert sorted(reader.messages(5)) == [b"%d" % number for number in range(5)]


def test_a_stream_goes_on_where_its_client_was(
    own_node: RunningNode, connect: Connect, open_client: Connect, name: str
) -> None:
    """E3, A5: the place is kept with the session; a crash repeats nothing of QoS 2."""
    writer = connect(to=own_node)
    for number in range(10):
        writer.publish(name, b"%d" % number, 2)
    lasting = Properties(session_expiry_s=600, receive_maximum=2)
    user = (("stream-offset", "earliest"),)
    for qos in (1, 2):
        reader = connect(f"{name}-{qos}", to=own_node, properties=lasting)
        reader.subscribe(f"$stream/{name}", qos=qos, properties=Properties(user=user))
        assert reader.messages(5) == [b"%d" % number for number in range(5)]
        if qos == 1:
            reader.disconnect()
    own_node.restart()
    for qos in (1, 2):
        reader = open_client(to=own_node)
        assert reader.connect(f"{name}-{qos}", clean=False, properties=lasting).has_session
        assert reader.messages(5) == [b"%d" % number for number in range(5, 10)]
