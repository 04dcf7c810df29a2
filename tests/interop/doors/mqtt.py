"""MQTT 5, through paho-mqtt."""

import base64
import queue
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.interop.doors.door import Sample
from tests.running_node import RunningNode

TIMEOUT_S = 60
BASE64, NULL = ";base64", ";null"


class Mqtt:
    """Carries everything: key, time and the lack of a value as user properties."""

    def produce(self, node: RunningNode, topic: str, sample: Sample) -> None:
        user = [("chordmq.timestamp", str(sample.timestamp))]
        if sample.key is not None:
            user.append(("chordmq.key-base64", _text(sample.key)))
        if sample.value is None:
            user.append(("chordmq.null", "true"))
        user += (_property(name, value) for name, value in sample.headers)
        properties: Any = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
        properties.UserProperty = user
        with _connected(node) as (client, _):
            sent = client.publish(topic, sample.value or b"", 1, properties=properties)
            sent.wait_for_publish(TIMEOUT_S)
            assert sent.is_published()

    def consume(self, node: RunningNode, topic: str, count: int) -> list[Sample]:
        properties: Any = Properties(PacketTypes.SUBSCRIBE)  # type: ignore[no-untyped-call]
        properties.UserProperty = [("stream-offset", "earliest"), ("chordmq.record", "full")]
        with _connected(node) as (client, messages):
            client.subscribe(f"$stream/{topic}", 1, properties=properties)
            return [_sample(messages.get(timeout=TIMEOUT_S)) for _ in range(count)]

    def carried(self, sample: Sample) -> Sample:
        return sample


@contextmanager
def _connected(node: RunningNode) -> Iterator[tuple[paho.Client, queue.Queue[paho.MQTTMessage]]]:
    client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
    messages: queue.Queue[paho.MQTTMessage] = queue.Queue()
    client.on_message = lambda client, data, message: messages.put(message)
    ready: queue.Queue[None] = queue.Queue()

    def on_connect(client: paho.Client, data: Any, flags: Any, reason: Any, _: Any) -> None:
        # A cluster that has just begun may still be busy; paho tries again by itself.
        if not reason.is_failure:
            ready.put(None)

    client.on_connect = on_connect
    client.connect(*node.mqtt_address)
    client.loop_start()
    try:
        ready.get(timeout=TIMEOUT_S)
        yield client, messages
    finally:
        client.disconnect()
        client.loop_stop()


def _property(name: str, value: bytes | None) -> tuple[str, str]:
    return (name + NULL, "") if value is None else (name + BASE64, _text(value))


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _sample(message: paho.MQTTMessage) -> Sample:
    about: dict[str, str] = {}
    headers: list[tuple[str, bytes | None]] = []
    properties: Any = message.properties
    for name, value in properties.UserProperty:
        if name.startswith("chordmq."):
            about[name] = value
        elif name.endswith(NULL):
            headers.append((name.removesuffix(NULL), None))
        elif name.endswith(BASE64):
            headers.append((name.removesuffix(BASE64), base64.b64decode(value)))
        else:
            headers.append((name, value.encode()))
    key = about["chordmq.key"].encode() if "chordmq.key" in about else None
    if "chordmq.key-base64" in about:
        key = base64.b64decode(about["chordmq.key-base64"])
    value = None if "chordmq.null" in about else bytes(message.payload)
    return Sample(key, value, tuple(headers), int(about["chordmq.timestamp"]))
