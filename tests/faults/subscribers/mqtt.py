"""A consumer over MQTT: a stream whose place its session keeps, or a queue that many share."""

import struct
from collections.abc import Iterator

from chordmq.codecs.mqtt.properties import Properties
from tests.faults.subscribers.subscriber import Wanted
from tests.fronts.mqtt.client import PUBACK, Client, packet

HELD = 200
BEGINNING = Properties(user=(("stream-offset", "earliest"),))


class Mqtt:
    """Answers each message when it is processed, with QoS 1."""

    def __init__(self, wanted: Wanted) -> None:
        self._client = Client(("127.0.0.1", wanted.ports["mqtt"]))
        is_shared = wanted.kind == "shared"
        lasting = Properties(session_expiry_s=0 if is_shared else 600, receive_maximum=HELD)
        name = "" if is_shared else wanted.name
        has_session = self._client.connect(name, clean=is_shared, properties=lasting).has_session
        if not has_session:
            kind = "$queue" if is_shared else "$stream"
            self._client.subscribe(f"{kind}/{wanted.topic}", qos=1, properties=BEGINNING)
        self._client.socket.settimeout(None)

    def messages(self) -> Iterator[tuple[int, bytes]]:
        while True:
            message = self._client.message(answers=False)
            yield message.id, message.payload

    def processed(self, token: int) -> None:
        self._client.send(packet(PUBACK << 4, struct.pack(">H", token)))

    def close(self) -> None:
        self._client.cut()
