"""X1: what one front takes, every other gives, unchanged or as its loss table says."""

import itertools
import uuid

import httpx
import pytest

from tests.interop.doors.amqp import Amqp
from tests.interop.doors.amqp1 import Amqp1
from tests.interop.doors.door import Door, Sample
from tests.interop.doors.framed import Framed
from tests.interop.doors.http import Http, HttpRaw
from tests.interop.doors.kafka import Kafka
from tests.interop.doors.mqtt import Mqtt
from tests.interop.doors.provider import Provider
from tests.interop.doors.rpc import Capnp, Grpc
from tests.interop.doors.websocket import WebSocketJson, WebSocketMsgpack
from tests.running_node import RunningNode

pytestmark = pytest.mark.interop

DOORS: dict[str, Door] = {
    "kafka": Kafka(),
    "amqp": Amqp(),
    "amqp1": Amqp1(),
    "mqtt": Mqtt(),
    "framed": Framed(),
    "provider": Provider(),
    "http": Http(),
    "http-raw": HttpRaw(),
    "websocket": WebSocketJson(),
    "websocket-msgpack": WebSocketMsgpack(),
    "capnp": Capnp(),
    "grpc": Grpc(),
}

TIME_MS = 1_700_000_000_123
HEADERS = (("trace", b"1"), ("trace", b"again"), ("raw", b"\x01\xf0"), ("Case", b""))
SAMPLES = {
    "plain": Sample(b"key", b"value", (), TIME_MS),
    "headers": Sample(b"key", b"value", HEADERS, TIME_MS + 1),
    "no key": Sample(None, "grüße".encode(), (), TIME_MS + 2),
    "empty key": Sample(b"", b"value", (), TIME_MS + 3),
    "empty value": Sample(b"key", b"", (), TIME_MS + 4),
    "no value": Sample(b"key", None, (("why", b"deleted"),), TIME_MS + 5),
    "bytes": Sample(b"\xff\x00\xfe", bytes(range(256)), (("none", None),), TIME_MS + 6),
    "1 MiB": Sample(b"large", bytes(range(256)) * 4096, (), TIME_MS + 7),
}


@pytest.mark.parametrize(
    ("sender", "receiver"),
    list(itertools.product(DOORS, repeat=2)),
    ids=lambda name: name,
)
def test_every_message_arrives_as_it_was_sent(
    node: RunningNode, sender: str, receiver: str
) -> None:
    """X1: key, headers, timestamp, empty and missing values, a large one, and any bytes."""
    topic = f"matrix-{sender}-{receiver}-{uuid.uuid4().hex[:8]}"
    # The messages are years old: a pass of retention must not take them away.
    settings = {"max.message.bytes": str(4 * 1024 * 1024), "retention.ms": "-1"}
    body = {"name": topic, "partitions": 1, "settings": settings}
    assert httpx.post(f"{node.http}/v1/topics", json=body, timeout=60).status_code == 201
    for sample in SAMPLES.values():
        DOORS[sender].produce(node, topic, sample)
    received = DOORS[receiver].consume(node, topic, len(SAMPLES))
    for name, found in zip(SAMPLES, received, strict=True):
        assert found == DOORS[sender].carried(SAMPLES[name]), name
