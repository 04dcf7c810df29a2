"""MQTT inside WebSocket frames: how frames and packets meet, and who may come in."""

from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus, NegotiationError
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from tests.fronts.mqtt.client import packet, text
from tests.running_node import RunningNode

CONNECT = packet(0x10, text("MQTT") + b"\4\2\0\0" + text(""))
MQTT = [Subprotocol("mqtt")]


def opened(node: RunningNode, **more: Any) -> ClientConnection:
    url = f"ws://127.0.0.1:{node.http_address[1]}/mqtt"
    client: ClientConnection = connect(url, subprotocols=MQTT, **more)
    return client


def test_packets_and_frames_need_not_agree(node: RunningNode, name: str) -> None:
    """E3: MQTT-6.0.0-2: several packets in a frame, one packet over several."""
    with opened(node) as client:
        assert client.subprotocol == "mqtt"
        talk = CONNECT + packet(0x82, b"\0\1" + text(f"{name}/a") + b"\1") + b"\xc0\0"
        for at in range(0, len(talk), 7):
            client.send(talk[at : at + 7])
        found = b""
        while not found.endswith(b"\xd0\0"):
            found += bytes(client.recv(60, decode=False))
        assert found == b"\x20\2\0\0" + b"\x90\3\0\1\1" + b"\xd0\0"
        client.send([packet(0x30, text(f"{name}/a") + b"x"), b"\xc0\0"])
        found = b""
        while not found.endswith(b"x"):
            found += bytes(client.recv(60, decode=False))


def test_text_frames_end_the_connection(node: RunningNode) -> None:
    """E3: MQTT-6.0.0-1."""
    with opened(node) as client:
        client.send("text")
        with pytest.raises(ConnectionClosed) as ended:
            client.recv(60)
        assert ended.value.rcvd is not None
        assert ended.value.rcvd.code == 1003


def test_another_sub_protocol_is_refused(node: RunningNode) -> None:
    """E3: MQTT-6.0.0-3, -4."""
    url = f"ws://127.0.0.1:{node.http_address[1]}/mqtt"
    with pytest.raises((InvalidStatus, NegotiationError)):
        connect(url, subprotocols=[Subprotocol("chordmq.json")])


def test_pages_of_other_sites_are_refused(node: RunningNode) -> None:
    """E13: as at /ws."""
    with pytest.raises(InvalidStatus) as refused:
        opened(node, origin="https://elsewhere.example")
    assert refused.value.response.status_code == 403


def test_a_malformed_packet_ends_the_connection(node: RunningNode) -> None:
    with opened(node) as client:
        client.send(CONNECT + b"\xc0\1x")
        assert client.recv(60) == b"\x20\2\0\0"
        with pytest.raises(ConnectionClosed):
            client.recv(60)
