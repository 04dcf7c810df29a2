"""MQTT over repeated kill -9: nothing of QoS 1 and 2 is lost, nothing of QoS 2 comes twice."""

import random
import threading
import time
from typing import Any

import pytest

from chordmq.codecs.mqtt.properties import Properties
from tests.fronts.mqtt.client import Client, HungUp, packet
from tests.running_node import RunningNode

KEPT = Properties(session_expiry_s=3600, receive_maximum=10)
CRASHES = 6
MESSAGES = 1_500
GONE = (HungUp, OSError)


class Writer(threading.Thread):
    """Publishes numbers in turn, each until the node has it; a number stays one message."""

    def __init__(self, node: RunningNode, topic: str, qos: int) -> None:
        super().__init__()
        self._node, self._topic, self._qos = node, topic, qos
        self.fault: Exception | None = None

    def run(self) -> None:
        try:
            self._publish_all()
        except Exception as fault:  # noqa: BLE001  shown by the test
            self.fault = fault

    def _publish_all(self) -> None:
        client: Client | None = None
        number, is_repeated, is_received = 0, False, False
        while number < MESSAGES:
            try:
                if client is None:
                    client = connected(self._node, f"writer-{self._qos}")
                identifier = number % 60_000 + 1
                if not is_received:
                    client.post(
                        self._topic, b"%d" % number, self._qos, id=identifier, duplicate=is_repeated
                    )
                    is_repeated = True
                    if client.answer(4 if self._qos == 1 else 5, identifier) >= 0x80:
                        raise AssertionError("refused")
                    is_received = self._qos == 2
                if is_received:
                    client.send(packet(0x62, identifier.to_bytes(2, "big")))
                    client.answer(7, identifier)
                number, is_repeated, is_received = number + 1, False, False
            except GONE:
                client = None


def connected(node: RunningNode, name: str) -> Client:
    deadline = time.monotonic() + 60
    while True:
        try:
            client = Client(node.mqtt_address)
            assert client.connect(name, clean=False, properties=KEPT).code == 0
            return client
        except GONE:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


class Reader(threading.Thread):
    """Takes messages as a client must: of QoS 2 each number once, until it is released."""

    def __init__(self, node: RunningNode, topic: str, qos: int) -> None:
        super().__init__()
        self._node, self._topic, self._qos = node, topic, qos
        self.found: list[int] = []
        self._open: set[int] = set()
        self.ready = threading.Event()
        self.fault: Exception | None = None

    def run(self) -> None:
        try:
            while len(set(self.found)) < MESSAGES:
                self._read()
        except Exception as fault:  # noqa: BLE001  shown by the test
            self.fault = fault

    def _read(self) -> None:
        try:
            client = connected(self._node, f"reader-{self._qos}")
            if not self.ready.is_set():
                client.subscribe(self._topic, qos=self._qos)
                self.ready.set()
            while len(set(self.found)) < MESSAGES:
                self._take(client, *client.packet())
        except GONE:
            return

    def _take(self, client: Client, first: int, body: bytes) -> None:
        if first >> 4 == 6:
            self._open.discard(int.from_bytes(body[:2], "big"))
            client.send(packet(0x70, body[:2]))
            return
        client._early.insert(0, (first, body))
        message = client.message(answers=False)
        identifier = message.id.to_bytes(2, "big")
        if message.qos == 1:
            self.found.append(int(message.payload))
            client.send(packet(0x40, identifier))
            return
        if message.id not in self._open:
            self._open.add(message.id)
            self.found.append(int(message.payload))
        client.send(packet(0x50, identifier))


@pytest.mark.slow
@pytest.mark.parametrize("qos", [1, 2])
def test_crashes_lose_nothing_and_repeat_nothing_of_qos_2(own_node: RunningNode, qos: int) -> None:
    """E3, A5, X5: a writer and a reader over six crashes at any moment."""
    chance = random.Random(qos)
    reader, writer = Reader(own_node, "crash/a", qos), Writer(own_node, "crash/a", qos)
    reader.start()
    assert reader.ready.wait(60)
    writer.start()
    for _ in range(CRASHES):
        time.sleep(chance.uniform(0.2, 1.0))
        own_node.restart()
    writer.join(90)
    reader.join(60)
    faults: list[Any] = [writer.fault, reader.fault]
    assert faults == [None, None]
    assert set(reader.found) == set(range(MESSAGES))
    if qos == 2:
        assert len(reader.found) == MESSAGES
    for one in Client.opened:
        one.close()
    Client.opened.clear()
