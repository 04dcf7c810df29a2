"""MQTT with clients that others have written: paho-mqtt, aiomqtt, gmqtt, mosquitto's, MQTT.js."""

import asyncio
import queue
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import aiomqtt
import paho.mqtt.client as paho
import pytest
from gmqtt import Client as GmqttClient
from gmqtt.mqtt.constants import MQTTv50, MQTTv311
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from tests.interop.program import ROOT, built, installed, run
from tests.running_node import RunningNode

pytestmark = pytest.mark.interop

TIMEOUT_S = 60
PROGRAMS = ROOT / "tests" / "interop" / "js"
VERSIONS = pytest.mark.parametrize("version", [paho.MQTTv311, paho.MQTTv5], ids=["3.1.1", "5"])


def about(packet: int) -> Any:
    """Return properties for a packet."""
    return Properties(packet)  # type: ignore[no-untyped-call]


class Paho:
    """paho-mqtt with its thread; what comes is in a queue."""

    def __init__(self, version: Any, client_id: str = "", transport: Any = "tcp") -> None:
        self.client = paho.Client(
            CallbackAPIVersion.VERSION2, client_id, protocol=version, transport=transport
        )
        self.messages: queue.Queue[paho.MQTTMessage] = queue.Queue()
        self.events: queue.Queue[str] = queue.Queue()
        self.client.on_message = lambda client, data, message: self.messages.put(message)
        self.client.on_connect = lambda *_: self.events.put("connect")
        self.client.on_subscribe = lambda *_: self.events.put("subscribe")

    def start(self, port: int, **more: Any) -> None:
        self.client.connect("127.0.0.1", port, **more)
        self.client.loop_start()
        assert self.events.get(timeout=TIMEOUT_S) == "connect"

    def subscribe(self, *arguments: Any, **more: Any) -> None:
        self.client.subscribe(*arguments, **more)
        assert self.events.get(timeout=TIMEOUT_S) == "subscribe"

    def publish(self, *arguments: Any, **more: Any) -> None:
        self.client.publish(*arguments, **more).wait_for_publish(TIMEOUT_S)

    def message(self) -> paho.MQTTMessage:
        return self.messages.get(timeout=TIMEOUT_S)

    def stop(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


@contextmanager
def paho_client(
    node: RunningNode, version: Any, client_id: str = "", transport: Any = "tcp", **more: Any
) -> Iterator[Paho]:
    one = Paho(version, client_id, transport)
    port = node.mqtt_address[1]
    if transport == "websockets":
        one.client.ws_set_options("/mqtt")
        port = node.http_address[1]
    one.start(port, **more)
    try:
        yield one
    finally:
        one.stop()


@VERSIONS
@pytest.mark.parametrize("transport", ["tcp", "websockets"])
def test_paho_sends_and_receives_all_qos(
    node: RunningNode, name: str, version: Any, transport: str
) -> None:
    """E3: also inside WebSockets at /mqtt."""
    with paho_client(node, version, transport=transport) as client:
        client.subscribe(f"{name}/+/x", 2)
        for number in range(60):
            client.publish(f"{name}/a/x", b"%d" % number, number % 3)
        found = [client.message() for _ in range(60)]
        assert sorted(int(one.payload) for one in found) == list(range(60))
        assert all(one.qos == int(one.payload) % 3 for one in found)


def test_paho_carries_properties_of_version_5(node: RunningNode, name: str) -> None:
    """E3: request and response, user properties, subscription identifiers."""
    with paho_client(node, paho.MQTTv5) as client:
        wanted = about(PacketTypes.SUBSCRIBE)
        wanted.SubscriptionIdentifier = 42
        options = SubscribeOptions(qos=1, retainAsPublished=True)
        client.subscribe(f"{name}/#", options=options, properties=wanted)
        sent = about(PacketTypes.PUBLISH)
        sent.ContentType, sent.ResponseTopic = "text/plain", f"{name}/answer"
        sent.CorrelationData = b"\x00\xff"
        sent.UserProperty = [("a", "1"), ("a", "2")]
        sent.MessageExpiryInterval = 60
        client.publish(f"{name}/ask", b"?", 1, True, properties=sent)
        found = client.message()
        got: Any = found.properties
        assert (got.ContentType, got.ResponseTopic) == ("text/plain", f"{name}/answer")
        assert (got.CorrelationData, got.UserProperty) == (b"\x00\xff", [("a", "1"), ("a", "2")])
        assert got.SubscriptionIdentifier == [42]
        assert found.retain
        client.publish(f"{name}/ask", b"", 1, True)


@VERSIONS
def test_paho_comes_back_to_its_session(node: RunningNode, name: str, version: Any) -> None:
    """E3, A5: offline messages."""
    more: dict[str, Any] = {}
    if version == paho.MQTTv5:
        expiry = about(PacketTypes.CONNECT)
        expiry.SessionExpiryInterval = 600
        more = {"clean_start": False, "properties": expiry}

    def connected() -> Any:
        one = Paho(version, name)
        if version == paho.MQTTv311:
            one.client._clean_session = False
        one.start(node.mqtt_address[1], **more)
        return one

    first = connected()
    first.subscribe(f"{name}/#", 1)
    first.stop()
    with paho_client(node, version) as writer:
        for number in range(10):
            writer.publish(f"{name}/a", b"%d" % number, 1)
    second = connected()
    assert [int(second.message().payload) for _ in range(10)] == list(range(10))
    second.stop()


async def test_aiomqtt_publishes_and_receives(node: RunningNode, name: str) -> None:
    """E3: a client on asyncio."""
    host, port = node.mqtt_address
    version = aiomqtt.ProtocolVersion.V5
    async with aiomqtt.Client(host, port, protocol=version, timeout=TIMEOUT_S) as client:
        await client.subscribe(f"{name}/#", qos=2)
        for number in range(20):
            await client.publish(f"{name}/a", b"%d" % number, qos=number % 3)
        found = []
        async with asyncio.timeout(TIMEOUT_S):
            async for message in client.messages:
                assert isinstance(message.payload, bytes)
                found.append(int(message.payload))
                if len(found) == 20:
                    break
    assert sorted(found) == list(range(20))


@pytest.mark.parametrize("version", [MQTTv311, MQTTv50])
async def test_gmqtt_publishes_and_receives(node: RunningNode, name: str, version: Any) -> None:
    """E3: a client with a codec of its own."""
    found: asyncio.Queue[bytes] = asyncio.Queue()
    client = GmqttClient(f"{name}-g")

    def on_message(client: Any, topic: str, payload: bytes, qos: int, properties: Any) -> int:
        found.put_nowait(payload)
        return 0

    client.on_message = on_message
    subscribed = asyncio.Event()
    client.on_subscribe = lambda *_: subscribed.set()
    await client.connect(*node.mqtt_address, version=version)
    client.subscribe(f"{name}/#", qos=1)
    async with asyncio.timeout(TIMEOUT_S):
        await subscribed.wait()
        for number in range(20):
            client.publish(f"{name}/a", b"%d" % number, qos=number % 2)
        assert sorted([int(await found.get()) for _ in range(20)]) == list(range(20))
    await client.disconnect()


def mosquitto(node: RunningNode, program: str, *arguments: str) -> list[str]:
    port = str(node.mqtt_address[1])
    command = [installed(f"mosquitto_{program}"), "-p", port, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    return done.stdout.splitlines()


@pytest.mark.parametrize("version", ["mqttv311", "mqttv5"])
def test_mosquitto_clients_find_retained_messages(
    node: RunningNode, name: str, version: str
) -> None:
    """E3: mosquitto_pub and mosquitto_sub."""
    for number in range(3):
        topic = f"{name}/{number}"
        mosquitto(node, "pub", "-V", version, "-q", "2", "-r", "-t", topic, "-m", str(number))
    found = mosquitto(
        node, "sub", "-V", version, "-q", "2", "-v", "-C", "3", "-W", "50", "-t", f"{name}/#"
    )
    assert sorted(found) == [f"{name}/{number} {number}" for number in range(3)]


def test_mosquitto_rr_gets_its_answer(node: RunningNode, name: str) -> None:
    """E3: request and response over MQTT 5."""
    with paho_client(node, paho.MQTTv5) as client:
        client.subscribe(f"{name}/ask", 1)

        def answer() -> None:
            found: Any = client.message()
            client.client.publish(found.properties.ResponseTopic, b"42", 1)

        helper = threading.Thread(target=answer)
        helper.start()
        arguments = ["-V", "mqttv5", "-t", f"{name}/ask", "-e", f"{name}/reply", "-m", "?"]
        assert mosquitto(node, "rr", *arguments, "-q", "1", "-W", "50") == ["42"]
        helper.join()


@pytest.mark.parametrize("transport", ["mqtt", "ws"])
@pytest.mark.parametrize("version", ["4", "5"])
def test_mqtt_js_finds_what_it_expects(
    node: RunningNode, name: str, transport: str, version: str
) -> None:
    """E3, E5: the client of browsers, over TCP and WebSockets."""
    built(PROGRAMS / "node_modules" / "mqtt")
    host, port = node.mqtt_address if transport == "mqtt" else node.http_address
    path = "/mqtt" if transport == "ws" else ""
    url = f"{transport}://{host}:{port}{path}"
    run([installed("node"), PROGRAMS / "mqtt.mjs", url, name, version])
