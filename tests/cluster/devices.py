"""Paho clients for tests with several nodes: they note what comes, and can be killed."""

import queue
import time
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.cluster.running_cluster import PATIENCE_S, until
from tests.running_node import RunningNode


class Device:
    """One client of MQTT 5, at any node; it comes back to its session if it is told to."""

    def __init__(self, name: str, *, expiry_s: int = 600, in_browser: bool = False) -> None:
        self.got: queue.Queue[tuple[str, bytes, int]] = queue.Queue()
        self.had_session = False
        self._expiry_s = expiry_s
        self._in_browser = in_browser
        self._client = paho.Client(
            CallbackAPIVersion.VERSION2,
            name,
            protocol=paho.MQTTv5,
            transport="websockets" if in_browser else "tcp",
        )
        self._client.on_message = self._take
        self._client.on_connect = self._connected
        self._is_connected = False
        self._subscribed: set[int] = set()
        self._client.on_disconnect = self._disconnected
        self._client.on_subscribe = lambda _1, _2, number, _3, _4: self._subscribed.add(number)

    def _take(self, _client: object, _data: object, message: paho.MQTTMessage) -> None:
        self.got.put((message.topic, bytes(message.payload), message.qos))

    def _connected(self, _1: object, _2: object, flags: Any, reason: Any, _3: object) -> None:
        if not reason.is_failure:  # else it tries again
            self.had_session = flags.session_present
            self._is_connected = True

    def _disconnected(self, *_: object) -> None:
        self._is_connected = False

    @property
    def is_connected(self) -> bool:
        return self._is_connected

    def will(self, topic: str, payload: bytes, delay_s: int = 0) -> None:
        properties = Properties(PacketTypes.WILLMESSAGE)  # type: ignore[no-untyped-call]
        properties.WillDelayInterval = delay_s
        self._client.will_set(topic, payload, 1, properties=properties)

    def connect(self, node: RunningNode) -> None:
        """Connect to a node, as often as it takes: a leader may have to be found first."""
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.SessionExpiryInterval = self._expiry_s
        address = node.http_address if self._in_browser else node.mqtt_address
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                self._client.connect(*address, clean_start=False, properties=properties)
                break
            except OSError:
                assert time.monotonic() < deadline, "the node does not take the client"
                time.sleep(0.1)
        self._client.loop_start()
        until(lambda: self.is_connected, 2 * PATIENCE_S)

    def subscribe(self, wanted: str, qos: int = 1) -> None:
        _, number = self._client.subscribe(wanted, qos)
        until(lambda: number in self._subscribed)

    def publish(self, topic: str, payload: bytes, qos: int = 1, *, retain: bool = False) -> None:
        """Publish, and return when the broker has it."""
        self.begin(topic, payload, qos, retain=retain).wait_for_publish(PATIENCE_S)

    def begin(
        self, topic: str, payload: bytes, qos: int = 1, *, retain: bool = False
    ) -> paho.MQTTMessageInfo:
        return self._client.publish(topic, payload, qos, retain)

    def next(self) -> tuple[str, bytes, int]:
        return self.got.get(timeout=PATIENCE_S)

    def take(self, count: int) -> list[bytes]:
        """Return the payloads of the next messages."""
        return [self.next()[1] for _ in range(count)]

    def stay_away(self) -> None:
        """Do not come back when the connection ends, as Paho would at once."""
        self._client.on_disconnect = self._gone

    def _gone(self, *_: object) -> None:
        self._is_connected = False
        self._client.disconnect()

    def leave(self) -> None:
        """Say goodbye."""
        self._client.disconnect()
        self._client.loop_stop()

    def drop(self) -> None:
        """Go without a word."""
        self._client.loop_stop()
        sock = self._client.socket()
        if sock is not None:
            sock.close()
