"""Connections that do not behave: garbage, pieces, storms, and what the node does about them."""

import socket
import struct
from contextlib import suppress

import httpx
import pytest

from chordmq.codecs.mqtt.properties import Properties, write_properties
from tests.conftest import StartNode
from tests.fronts.mqtt.client import PUBACK, Client, HungUp, Will, packet, text
from tests.fronts.mqtt.conftest import Connect
from tests.running_node import RunningNode


def test_every_byte_of_a_conversation_can_be_anything(node: RunningNode, connect: Connect) -> None:
    """E3, C12: a malformed packet closes its own connection, and no other."""
    witness = connect()
    before = node.log.read_text().count("Traceback")
    properties = Properties(content_type="t", user=(("a", "b"),), correlation_data=b"c")
    talk = b"".join(
        (
            packet(0x10, text("MQTT") + b"\5\2\0\0\0" + text("mutant")),
            packet(0x82, b"\0\1\0" + text("mutant/#") + b"\1"),
            packet(0x32, text("mutant/a") + b"\0\7" + write_properties(properties) + b"x"),
            packet(0x62, b"\0\1"),
            packet(0xA2, b"\0\2\0" + text("mutant/#")),
            b"\xe0\0",
        )
    )
    for at in range(len(talk)):
        for change in (0x01, 0x80, 0xFF):
            with socket.create_connection(node.mqtt_address) as raw:
                raw.sendall(talk[:at] + bytes((talk[at] ^ change,)) + talk[at + 1 :])
                raw.shutdown(socket.SHUT_WR)
                raw.settimeout(60)
                with suppress(ConnectionResetError):
                    while raw.recv(4096):
                        pass
    witness.ping()
    assert node.log.read_text().count("Traceback") == before


@pytest.mark.parametrize("version", [4, 5])
def test_a_conversation_in_single_bytes(open_client: Connect, name: str, version: int) -> None:
    """E3: packets may come in any pieces."""
    client = open_client(version)
    body = text("MQTT") + bytes((version, 2)) + b"\0\0" + client.properties() + text(name)
    topic = text(f"{name}/a")
    talk = packet(0x10, body) + packet(0x82, b"\0\1" + client.properties() + topic + b"\0")
    talk += packet(0x32, topic + b"\0\2" + client.properties() + b"hello")
    for byte in talk:
        client.send(bytes((byte,)))
    assert client.connack().code == 0
    assert client.expect(9)[-1] == 0
    assert client.answer(PUBACK, 2) == 0
    assert client.message().payload == b"hello"


def test_everything_at_once_in_the_first_read(open_client: Connect, name: str) -> None:
    """E3: a client need not wait for CONNACK."""
    client = open_client(4)
    talk = packet(0x10, text("MQTT") + b"\4\2\0\0" + text(name))
    talk += packet(0x82, b"\0\1" + text(f"{name}/a") + b"\1")
    talk += packet(0x32, text(f"{name}/a") + b"\0\2" + b"hello")
    client.send(talk)
    assert client.connack().code == 0
    assert client.expect(9) == b"\0\1\1"
    assert client.answer(PUBACK, 2) == 0
    assert client.message().payload == b"hello"


def test_an_unknown_version_is_told_so(open_client: Connect) -> None:
    """E3: MQTT-3.1.2-2."""
    client = open_client(4)
    client.send(packet(0x10, text("MQTT") + b"\6\2\0\0" + text("x")))
    assert client.connack().code == 1
    with pytest.raises(HungUp):
        client.packet()


def test_a_second_connect_is_an_error(connect: Connect) -> None:
    """E3: MQTT-3.1.0-2."""
    client = connect()
    client.ask("again")
    assert client.ending() == 0x82


def test_packets_only_servers_send_are_an_error(connect: Connect) -> None:
    client = connect()
    client.send(b"\xd0\0")
    assert client.ending() == 0x82


def test_a_packet_over_the_limit_is_refused(start_node: StartNode, connect: Connect) -> None:
    """E3: MQTT-3.2.2-15: the limit is told, and kept before the body comes."""
    node = start_node({"mqtt.frame_size_max": "1000"})
    client = Client(node.mqtt_address)
    assert client.connect("").properties.maximum_packet_size == 1000
    client.send(b"\x30\xff\xff\x7f")
    assert client.ending() == 0x95


def test_the_keep_alive_can_be_capped(start_node: StartNode) -> None:
    """E3: MQTT-3.2.2-21: the server's value counts."""
    node = start_node({"mqtt.keep_alive_max_s": "1", "mqtt.session_expiry_max_s": "100"})
    client = Client(node.mqtt_address)
    told = client.connect("a", keep_alive=600, properties=Properties(session_expiry_s=1000))
    assert told.properties.server_keep_alive_s == 1
    assert told.properties.session_expiry_s == 100
    assert client.ending() == 0x8D


def test_no_reason_string_for_who_wants_none(open_client: Connect) -> None:
    """E3: MQTT-3.1.2-29."""
    client = open_client()
    client.connect("", properties=Properties(request_problem=0))
    client.send(packet(0x32, text("$SYS/x") + b"\0\1\0"))
    assert client.expect(4) == b"\0\1\x87"


def test_a_storm_of_wills_and_reconnects(node: RunningNode, connect: Connect, name: str) -> None:
    """E3: 200 clients go at once; each will is published once."""
    reader = connect()
    reader.subscribe(f"{name}/#", qos=1)
    clients = [
        connect(f"{name}-{number}", will=Will(f"{name}/{number}", b"gone", 1))
        for number in range(200)
    ]
    for client in clients:
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.cut()
    found = {reader.message().topic for _ in range(200)}
    assert found == {f"{name}/{number}" for number in range(200)}
    assert reader.is_quiet()


def test_clients_are_told_when_the_node_stops(own_node: RunningNode, connect: Connect) -> None:
    """E3, C13."""
    client = connect(to=own_node)
    own_node.stop()
    assert client.ending() == 0x8B


def test_who_is_connected_can_be_seen(node: RunningNode, connect: Connect, name: str) -> None:
    """E3: in the list of clients, with their subscriptions, and as numbers."""
    client = connect(name)
    client.subscribe(f"{name}/#")
    clients = httpx.get(f"{node.http}/v1/clients", timeout=60).json()
    listed = clients["clients"] if isinstance(clients, dict) else clients
    [found] = [one for one in listed if one["name"] == name]
    assert found["protocol"] == "mqtt 5"
    assert found["subscriptions"] == [f"{name}/#"]
    assert node.metric("chordmq_mqtt_clients") >= 1
