"""Sessions: what a client finds when it comes back, also after a crash of the node."""

import time
from typing import Any

import pytest

from chordmq.codecs.mqtt.properties import Properties
from tests.fronts.mqtt.client import PUBCOMP, PUBREC, PUBREL, SUBACK, Client, Will, packet, text
from tests.fronts.mqtt.conftest import Connect
from tests.running_node import RunningNode

KEPT = Properties(session_expiry_s=600)
VERSIONS = pytest.mark.parametrize("version", [4, 5])


def kept(connect: Connect, client_id: str, version: int = 5, **more: Any) -> Client:
    """Connect with a session that stays."""
    return connect(client_id, version, clean=False, properties=KEPT, **more)


@VERSIONS
def test_a_session_keeps_subscriptions_and_messages(
    open_client: Connect, connect: Connect, name: str, version: int
) -> None:
    """E3, A5: MQTT-3.1.2-5, -6: what was missed comes when the client comes back."""
    client = open_client(version)
    assert client.connect(name, clean=False, properties=KEPT)[:2] == (False, 0)
    client.subscribe(f"{name}/a/#", qos=1)
    client.disconnect()
    writer = connect(version=version)
    for number in range(50):
        writer.publish(f"{name}/a/b", b"%d" % number, number % 3)
    client = open_client(version)
    assert client.connect(name, clean=False, properties=KEPT)[:2] == (True, 0)
    missed = [b"%d" % number for number in range(50) if number % 3]
    assert client.messages(len(missed)) == missed
    writer.publish(f"{name}/a/b", b"live", 0)
    assert client.messages(1) == [b"live"]


@VERSIONS
def test_a_clean_start_forgets_everything(
    open_client: Connect, connect: Connect, name: str, version: int
) -> None:
    """E3: MQTT-3.1.2-4."""
    client = kept(connect, name, version)
    client.subscribe(f"{name}/a/#", qos=1)
    client.disconnect()
    connect(version=version).publish(f"{name}/a/b", b"missed", 1)
    client = open_client(version)
    assert client.connect(name, clean=True)[:2] == (False, 0)
    connect(version=version).publish(f"{name}/a/b", b"live", 1)
    assert client.is_quiet()
    client.disconnect()
    assert open_client(version).connect(name, clean=False)[:2] == (False, 0)


def test_a_session_expires(open_client: Connect, connect: Connect, name: str) -> None:
    """E3: MQTT-3.1.2-23: after the time that the client has asked for."""
    client = connect(name, clean=False, properties=Properties(session_expiry_s=1))
    client.subscribe(f"{name}/a", qos=1)
    client.disconnect()
    time.sleep(3)  # what is to be shown is that time passes
    client = open_client()
    assert client.connect(name, clean=False, properties=KEPT)[:2] == (False, 0)


def test_a_disconnect_can_change_the_expiry(open_client: Connect, name: str) -> None:
    """E3: MQTT-3.14.2-2: to none at all, but not from none to some."""
    client = open_client()
    client.connect(name, properties=KEPT)
    client.disconnect(properties=Properties(session_expiry_s=0))
    client = open_client()
    assert not client.connect(name, clean=False).has_session
    client.send(packet(0xE0, b"\0\x05\x11\0\0\0\x05"))
    assert client.ending() == 0x82


def test_unanswered_messages_come_again_under_their_numbers(connect: Connect, name: str) -> None:
    """E3: MQTT-4.4.0-1: PUBLISH and PUBREL, in their order, marked as repeated."""
    client, writer = kept(connect, name), connect()
    client.subscribe(f"{name}/#", qos=2)
    for number in range(4):
        writer.publish(f"{name}/a", b"%d" % number, 1 if number == 1 else 2)
    first = [client.message(answers=False) for _ in range(4)]
    client.send(packet(0x50, first[2].id.to_bytes(2, "big")))
    assert client.answer(PUBREL, first[2].id) == 0
    client.cut()
    client = kept(connect, name)
    again = [client.message(answers=False) for _ in range(2)]
    assert [(one.id, one.payload, one.duplicate) for one in again] == [
        (first[0].id, b"0", True),
        (first[1].id, b"1", True),
    ]
    assert client.answer(PUBREL, first[2].id) == 0
    last = client.message(answers=False)
    assert (last.id, last.payload, last.duplicate) == (first[3].id, b"3", True)


def test_a_newer_connection_takes_the_session_over(connect: Connect, name: str) -> None:
    """E3: MQTT-3.1.4-3: the older one is told, and closed."""
    first = kept(connect, name)
    first.subscribe(f"{name}/a", qos=1)
    second = kept(connect, name)
    assert first.ending() == 0x8E
    connect().publish(f"{name}/a", b"x", 1)
    assert second.messages(1) == [b"x"]


def test_a_storm_of_connections_of_one_client_leaves_the_last(
    node: RunningNode, open_client: Connect, connect: Connect, name: str
) -> None:
    """E3: each takes over from the one before; nothing is lost on the way."""
    kept(connect, name).subscribe(f"{name}/a", qos=1)
    clients = [open_client() for _ in range(100)]
    for client in clients:
        client.ask(name, clean=False, properties=KEPT)
    connect().publish(f"{name}/a", b"x", 1)
    answers = [client.wait_for_end() for client in clients[:-1]]
    for *_, (first, body) in answers:  # told so after CONNACK, or busy instead of it
        assert (first, body[0]) == (0xE0, 0x8E) or (first, body[1]) == (0x20, 0x89)
    assert clients[-1].connack().has_session
    assert b"x" in [clients[-1].message().payload]


def test_wills_are_published_for_who_goes_without_a_word(connect: Connect, name: str) -> None:
    """E3: MQTT-3.1.2-8, -10: and not for who says goodbye."""
    reader = connect()
    reader.subscribe(f"{name}/#", qos=2)
    for number in range(3):
        will = Will(f"{name}/{number}", b"gone", number, properties=Properties(user=(("a", "b"),)))
        connect(will=will).cut()
        found = reader.message()
        assert (found.topic, found.payload, found.qos) == (f"{name}/{number}", b"gone", number)
        assert found.properties.user == (("a", "b"),)
    connect(will=Will(f"{name}/well", b"gone")).disconnect()
    connect(will=Will(f"{name}/asked", b"gone")).disconnect(reason=4)
    assert reader.message().topic == f"{name}/asked"


def test_a_delayed_will_waits_for_the_client(connect: Connect, name: str) -> None:
    """E3: MQTT-3.1.3-9: and is not published if the client comes back in time."""
    reader = connect()
    reader.subscribe(f"{name}/#")
    delayed = Properties(will_delay_s=6)
    kept(connect, f"{name}-back", will=Will(f"{name}/back", b"", properties=delayed)).cut()
    kept(connect, f"{name}-gone", will=Will(f"{name}/gone", b"", properties=delayed)).cut()
    began = time.monotonic()
    back = kept(connect, f"{name}-back")
    assert reader.message().topic == f"{name}/gone"
    assert time.monotonic() - began > 2
    back.disconnect()
    assert reader.is_quiet()


def test_a_will_does_not_outlive_its_session(connect: Connect, name: str) -> None:
    """E3: MQTT-3.1.2.5: the end of the session comes before the delay."""
    reader = connect()
    reader.subscribe(f"{name}/#")
    will = Will(f"{name}/a", b"", properties=Properties(will_delay_s=600))
    connect(name, will=will).cut()
    assert reader.message().topic == f"{name}/a"


def test_a_silent_client_is_disconnected(connect: Connect) -> None:
    """E3: MQTT-3.1.2-22: after one and a half times its keep-alive."""
    client = connect(keep_alive=1)
    began = time.monotonic()
    assert client.ending() == 0x8D
    assert time.monotonic() - began > 1.3


def test_a_client_gets_an_id_if_it_has_none(open_client: Connect) -> None:
    """E3: MQTT-3.1.3-6, -7; MQTT 3.1.1 has no way to tell it, and refuses a kept session."""
    answer = open_client().connect("")
    assert answer.properties.assigned_client_id
    assert open_client(4).connect("").code == 0
    assert open_client(4).connect("", clean=False).code == 2


def test_a_crash_loses_nothing_and_repeats_no_message_of_qos_2(
    own_node: RunningNode, connect: Connect, name: str
) -> None:
    """E3, A5: kill -9 at every step of both exchanges of QoS 2."""
    to: dict[str, Any] = {"to": own_node}
    reader, writer = kept(connect, "r", **to), kept(connect, "w", **to)
    reader.subscribe(f"{name}/#", qos=2)
    for number in range(6):
        writer.publish(f"{name}/a", b"%d" % number, 2)
    first = [reader.message(answers=False) for _ in range(6)]
    for message in first[2:4]:  # 2 and 3 are received, 3 is over as well
        reader.send(packet(0x50, message.id.to_bytes(2, "big")))
        assert reader.answer(PUBREL, message.id) == 0
    reader.send(packet(0x70, first[3].id.to_bytes(2, "big")))
    reader.ping()
    writer.post(f"{name}/a", b"received", 2, id=100)
    assert writer.answer(PUBREC, 100) == 0
    own_node.kill9()
    own_node.start()

    writer = kept(connect, "w", **to)
    writer.post(f"{name}/a", b"received", 2, id=100, duplicate=True)
    assert writer.answer(PUBREC, 100) == 0
    writer.send(packet(0x62, b"\0\x64"))
    assert writer.answer(7, 100) == 0
    reader = kept(connect, "r", **to)
    again: dict[int, bytes] = {}
    released = []
    while len(again) < 5:
        kind, body = reader.packet()
        if kind >> 4 == PUBREL:
            released.append(int.from_bytes(body[:2], "big"))
            continue
        reader._early.insert(0, (kind, body))
        message = reader.message(answers=False)
        assert message.id not in again
        again[message.id] = message.payload
    expected = {first[number].id: b"%d" % number for number in (0, 1, 4, 5)}
    assert {number: again[number] for number in expected} == expected
    assert first[2].id in released
    assert {*released} <= {first[2].id, first[3].id}
    assert reader.is_quiet()
    assert sorted(again.values()) == sorted([*expected.values(), b"received"])


def test_a_crash_loses_no_message_of_qos_1(
    own_node: RunningNode, connect: Connect, name: str
) -> None:
    """E3, A5: what was acknowledged is delivered, whether the client was there or not."""
    to: dict[str, Any] = {"to": own_node}
    reader = kept(connect, "r", 4, **to)
    reader.subscribe(f"{name}/#", qos=1)
    connect(version=4, **to).publish(f"{name}/a", b"before", 1)
    assert reader.messages(1) == [b"before"]
    reader.cut()
    writer = connect(version=4, **to)
    for number in range(100):
        writer.publish(f"{name}/{number % 3}", b"%d" % number, 1)
    own_node.kill9()
    own_node.start()
    reader = kept(connect, "r", 4, **to)
    found = set(reader.messages(100))
    while len(found - {b"before"}) < 100:
        found.add(reader.message().payload)
    assert found - {b"before"} == {b"%d" % number for number in range(100)}


def test_a_stop_in_order_repeats_nothing(
    own_node: RunningNode, connect: Connect, name: str
) -> None:
    """E3, C13: each session's place is stored when the node stops."""
    to: dict[str, Any] = {"to": own_node}
    reader = kept(connect, "r", **to)
    reader.subscribe(f"{name}/#", qos=1)
    writer = connect(**to)
    for number in range(20):
        writer.publish(f"{name}/a", b"%d" % number, 1)
    assert len(reader.messages(20)) == 20
    reader.ping()
    own_node.stop()
    own_node.start()
    reader = kept(connect, "r", **to)
    assert reader.is_quiet()


def test_no_local_holds_for_messages_of_qos_2_sent_just_before(
    own_node: RunningNode, connect: Connect, name: str
) -> None:
    """E3: MQTT-3.8.3-3: wherever the message is read, and by a node that was killed since."""
    to: dict[str, Any] = {"to": own_node}
    client, other = kept(connect, "c", **to), connect(**to)
    client.publish(f"{name}/a/b", b"makes the topic", 2)
    number = client.post(f"{name}/a/b", b"own", 2)
    client.send(packet(0x82, b"\0\x09\0" + text(f"{name}/a/#") + b"\x06"))
    answers = {client.packet()[0], client.packet()[0]}
    assert answers == {PUBREC << 4, SUBACK << 4}
    client.send(packet(0x62, number.to_bytes(2, "big")))
    assert client.answer(PUBCOMP, number) == 0
    other.publish(f"{name}/a/b", b"others'", 2)
    assert client.message(answers=False).payload == b"others'"
    own_node.kill9()
    own_node.start()
    client = kept(connect, "c", **to)
    assert client.message().payload == b"others'"
    assert client.is_quiet()


def test_no_local_holds_for_what_a_stream_reads_again(
    own_node: RunningNode, connect: Connect, name: str
) -> None:
    """E3: MQTT-3.8.3-3: all of QoS 2, of others what was sent since the client wants it so."""
    to: dict[str, Any] = {"to": own_node}
    client, other = kept(connect, "c", **to), connect(**to)
    client.publish(name, b"own before", 2)
    other.publish(name, b"1", 2)
    since = Properties(user=(("stream-offset", "earliest"),))
    assert client.subscribe(f"$stream/{name}", qos=2, options=4, properties=since) == [2]
    client.publish(name, b"own since", 1)
    other.publish(name, b"2", 1)
    assert client.messages(2) == [b"1", b"2"]
    client.disconnect()
    own_node.restart()
    client, other = kept(connect, "c", **to), connect(**to)
    client.publish(name, b"own, back again", 1)
    other.publish(name, b"3", 1)
    assert client.messages(1) == [b"3"]
    assert client.is_quiet()


def test_a_crash_ends_no_subscription_and_publishes_wills(
    own_node: RunningNode, connect: Connect, name: str
) -> None:
    """E3: retained messages, sessions and wills are in the log."""
    to: dict[str, Any] = {"to": own_node}
    reader = kept(connect, "r", **to)
    reader.subscribe(f"{name}/#", qos=1)
    kept(connect, "w", will=Will(f"{name}/will", b"gone", 1), **to)
    connect(**to).publish(f"{name}/kept", b"retained", 1, retain=True)
    assert reader.messages(1) == [b"retained"]
    own_node.kill9()
    own_node.start()
    reader = kept(connect, "r", **to)
    found = {reader.message().payload}
    while b"gone" not in found:
        found.add(reader.message().payload)
    late = connect(**to)
    late.subscribe(f"{name}/kept")
    assert late.message()[1:4] == (b"retained", 0, True)
