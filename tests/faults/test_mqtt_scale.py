"""Many sessions and many retained messages, over a restart."""

from collections.abc import Iterator

import pytest

from chordmq.codecs.mqtt.properties import Properties
from tests.fronts.mqtt.client import Client, packet, text
from tests.running_node import RunningNode

RETAINED = 100_000
SESSIONS = 10_000
MB = 1_000_000


@pytest.fixture(autouse=True)
def _no_connection_stays() -> Iterator[None]:
    yield
    while Client.opened:
        Client.opened.pop().close()


def connected(node: RunningNode, name: str = "", **more: object) -> Client:
    client = Client(node.mqtt_address)
    client.socket.settimeout(100)
    assert client.connect(name, **more).code == 0  # type: ignore[arg-type]
    return client


@pytest.mark.slow
def test_a_hundred_thousand_retained_messages(own_node: RunningNode) -> None:
    """E3: kept, found again after a crash, and sent to who asks for all of them."""
    before = own_node.resident_bytes()
    writer = connected(own_node)
    for first in range(0, RETAINED, 1000):
        batch = (
            packet(0x31, text(f"fleet/site/{n // 100}/{n % 100}") + b"\0" + b"%d" % n)
            for n in range(first, first + 1000)
        )
        writer.send(b"".join(batch))
    writer.publish("fleet/site/end", b"x", 1, retain=True)
    assert own_node.metric("chordmq_mqtt_retained") == RETAINED + 1
    assert own_node.resident_bytes() - before < 250 * MB
    own_node.restart()
    reader = connected(own_node)
    reader.subscribe("fleet/site/77/+")
    assert len({reader.message().topic for _ in range(100)}) == 100
    reader.subscribe("fleet/site/#", properties=Properties(user=(("a", "b"),)))
    found = {reader.message().topic for _ in range(RETAINED + 1)}
    assert len(found) == RETAINED + 1


@pytest.mark.slow
def test_ten_thousand_absent_sessions(own_node: RunningNode) -> None:
    """E3: each keeps its subscription and its message over a crash."""
    kept = Properties(session_expiry_s=3600)
    before = own_node.resident_bytes()
    for number in range(SESSIONS):
        client = connected(own_node, f"device-{number}", clean=False, properties=kept)
        client.subscribe(f"fleet/devices/{number}/commands", qos=1)
        client.cut()
    writer = connected(own_node)
    for number in range(0, SESSIONS, 10):
        writer.publish(f"fleet/devices/{number}/commands", b"%d" % number, 1)
    assert own_node.metric("chordmq_mqtt_sessions") >= SESSIONS
    assert own_node.resident_bytes() - before < 150 * MB
    own_node.restart()
    assert own_node.metric("chordmq_mqtt_subscriptions") == SESSIONS
    for number in range(0, SESSIONS, 1000):
        client = connected(own_node, f"device-{number}", clean=False, properties=kept)
        assert client.message().payload == b"%d" % number
        assert client.is_quiet()
